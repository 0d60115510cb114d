"""Raises an error of several megabytes.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: xxxx
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise RuntimeError("x" * 5_000_000)
