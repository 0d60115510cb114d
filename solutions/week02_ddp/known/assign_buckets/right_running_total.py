"""Different: keeps a running total."""


def assign_buckets(sizes, bucket_bytes):
    buckets, filled = [], 0
    for number in range(len(sizes) - 1, -1, -1):
        if buckets and filled + sizes[number] <= bucket_bytes:
            buckets[-1].append(number)
            filled += sizes[number]
        else:
            buckets.append([number])
            filled = sizes[number]
    return buckets
