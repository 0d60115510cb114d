"""Opens files forever.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: Too many open files
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    kept = [open("/dev/null") for _ in range(100_000)]
    return len(kept), 0
