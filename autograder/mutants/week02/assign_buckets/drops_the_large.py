"""Wrong: a parameter larger than a bucket is forgotten."""


def assign_buckets(sizes, bucket_bytes):
    buckets, filled = [], 0
    for number in reversed(range(len(sizes))):
        if sizes[number] > bucket_bytes:
            continue
        if not buckets or filled + sizes[number] > bucket_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(number)
        filled += sizes[number]
    return buckets
