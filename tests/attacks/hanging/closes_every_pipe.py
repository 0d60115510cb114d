"""Closes all its descriptors, then returns.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: Rank 0
timeout: 1.5
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    os.closerange(0, 1024)
    return 0, 0
