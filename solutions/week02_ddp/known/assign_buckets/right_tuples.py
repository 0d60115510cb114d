"""Different: tuples."""


def assign_buckets(sizes, bucket_bytes):
    buckets, open_bucket = [], []
    for number in reversed(range(len(sizes))):
        if open_bucket and sum(sizes[n] for n in open_bucket) + sizes[number] > bucket_bytes:
            buckets.append(tuple(open_bucket))
            open_bucket = []
        open_bucket.append(number)
    return (*buckets, tuple(open_bucket))
