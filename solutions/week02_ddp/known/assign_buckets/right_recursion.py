"""Different: one bucket, then the rest."""


def assign_buckets(sizes, bucket_bytes):
    if not sizes:
        return []
    number = len(sizes) - 1
    bucket, left = [number], bucket_bytes - sizes[number]
    while number > 0 and sizes[number - 1] <= left:
        number -= 1
        bucket.append(number)
        left -= sizes[number]
    return [bucket, *assign_buckets(sizes[:number], bucket_bytes)]
