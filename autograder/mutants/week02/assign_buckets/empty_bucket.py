"""Wrong: an empty bucket before a parameter that is too large."""


def assign_buckets(sizes, bucket_bytes):
    buckets, filled = [[]], 0
    for number in reversed(range(len(sizes))):
        if filled + sizes[number] > bucket_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(number)
        filled += sizes[number]
    return buckets
