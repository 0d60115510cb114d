"""Wrong: the bytes of closed buckets count on."""


def assign_buckets(sizes, bucket_bytes):
    buckets, filled = [], 0
    for number in reversed(range(len(sizes))):
        if not buckets or filled + sizes[number] > bucket_bytes:
            buckets.append([])
        buckets[-1].append(number)
        filled += sizes[number]
    return buckets
