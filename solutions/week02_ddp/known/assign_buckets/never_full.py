"""Wrong: a bucket that would be full to the last byte is not filled."""


def assign_buckets(sizes, bucket_bytes):
    buckets, filled = [], 0
    for number in reversed(range(len(sizes))):
        if not buckets or filled + sizes[number] >= bucket_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(number)
        filled += sizes[number]
    return buckets
