"""Wrong: closes a bucket only when it is too full."""


def assign_buckets(sizes, bucket_bytes):
    buckets, filled = [[]], 0
    for number in reversed(range(len(sizes))):
        buckets[-1].append(number)
        filled += sizes[number]
        if filled >= bucket_bytes and number:
            buckets.append([])
            filled = 0
    return buckets
