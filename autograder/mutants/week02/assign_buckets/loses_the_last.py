"""Wrong: the bucket that is open at the end is lost."""


def assign_buckets(sizes, bucket_bytes):
    buckets, bucket = [], []
    for number in reversed(range(len(sizes))):
        if bucket and sum(sizes[n] for n in bucket) + sizes[number] > bucket_bytes:
            buckets.append(bucket)
            bucket = []
        bucket.append(number)
    return buckets
