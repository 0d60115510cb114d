# %% right_recursion
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


# %% right_running_total
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


# %% right_tuples
"""Different: tuples."""


def assign_buckets(sizes, bucket_bytes):
    buckets, open_bucket = [], []
    for number in reversed(range(len(sizes))):
        if open_bucket and sum(sizes[n] for n in open_bucket) + sizes[number] > bucket_bytes:
            buckets.append(tuple(open_bucket))
            open_bucket = []
        open_bucket.append(number)
    return (*buckets, tuple(open_bucket))


# %% never_full
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


# %% drops_the_large of="never_full"
"""Wrong: a parameter larger than a bucket is forgotten."""

# -        if not buckets or filled + sizes[number] >= bucket_bytes:
# +        if sizes[number] > bucket_bytes:
# +            continue
# +        if not buckets or filled + sizes[number] > bucket_bytes:

# %% empty_bucket of="never_full"
"""Wrong: an empty bucket before a parameter that is too large."""

# -    buckets, filled = [], 0
# +    buckets, filled = [[]], 0

# -        if not buckets or filled + sizes[number] >= bucket_bytes:
# +        if filled + sizes[number] > bucket_bytes:

# %% first_to_last of="never_full"
"""Wrong: in the order of the forward."""

# -    for number in reversed(range(len(sizes))):
# -        if not buckets or filled + sizes[number] >= bucket_bytes:
# +    for number in range(len(sizes)):
# +        if not buckets or filled + sizes[number] > bucket_bytes:

# %% forgets_to_reset of="never_full"
"""Wrong: the bytes of closed buckets count on."""

# -        if not buckets or filled + sizes[number] >= bucket_bytes:
# +        if not buckets or filled + sizes[number] > bucket_bytes:

# -            filled = 0

# %% one_each
"""Wrong: a bucket for each parameter."""


def assign_buckets(sizes, bucket_bytes):
    return [[number] for number in reversed(range(len(sizes)))]


# %% first_fit of="one_each"
"""Wrong: puts a late parameter into an early bucket that has room."""

# -    return [[number] for number in reversed(range(len(sizes)))]
# +    buckets = []
# +    for number in reversed(range(len(sizes))):
# +        for bucket in buckets:
# +            if sum(sizes[n] for n in bucket) + sizes[number] <= bucket_bytes:
# +                bucket.append(number)
# +                break
# +        else:
# +            buckets.append([number])
# +    return buckets

# %% loses_the_last of="one_each"
"""Wrong: the bucket that is open at the end is lost."""

# -    return [[number] for number in reversed(range(len(sizes)))]
# +    buckets, bucket = [], []
# +    for number in reversed(range(len(sizes))):
# +        if bucket and sum(sizes[n] for n in bucket) + sizes[number] > bucket_bytes:
# +            buckets.append(bucket)
# +            bucket = []
# +        bucket.append(number)
# +    return buckets

# %% overflows of="one_each"
"""Wrong: closes a bucket only when it is too full."""

# -    return [[number] for number in reversed(range(len(sizes)))]
# +    buckets, filled = [[]], 0
# +    for number in reversed(range(len(sizes))):
# +        buckets[-1].append(number)
# +        filled += sizes[number]
# +        if filled >= bucket_bytes and number:
# +            buckets.append([])
# +            filled = 0
# +    return buckets

# %% sizes_for_numbers of="one_each"
"""Wrong: sizes where numbers are due."""

# -    return [[number] for number in reversed(range(len(sizes)))]
# +    buckets, filled = [], 0
# +    for size in reversed(sizes):
# +        if not buckets or filled + size > bucket_bytes:
# +            buckets.append([])
# +            filled = 0
# +        buckets[-1].append(size)
# +        filled += size
# +    return buckets
