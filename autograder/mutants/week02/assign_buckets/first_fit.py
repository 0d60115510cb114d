"""Wrong: puts a late parameter into an early bucket that has room."""


def assign_buckets(sizes, bucket_bytes):
    buckets = []
    for number in reversed(range(len(sizes))):
        for bucket in buckets:
            if sum(sizes[n] for n in bucket) + sizes[number] <= bucket_bytes:
                bucket.append(number)
                break
        else:
            buckets.append([number])
    return buckets
