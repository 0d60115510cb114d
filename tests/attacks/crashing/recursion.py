"""Calls itself forever.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: RecursionError
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return naive_all_reduce_bill(num_ranks, num_bytes)
