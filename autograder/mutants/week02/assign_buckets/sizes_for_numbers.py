"""Wrong: sizes where numbers are due."""


def assign_buckets(sizes, bucket_bytes):
    buckets, filled = [], 0
    for size in reversed(sizes):
        if not buckets or filled + size > bucket_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(size)
        filled += size
    return buckets
