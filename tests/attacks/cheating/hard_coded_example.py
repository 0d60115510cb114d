"""Knows the answer of the visible example and nothing else.

catalogue: A13
exercise: week01.naive-bill
points: 0
sentence: is not the number
cases: all
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return {(8, 14e9): (14, 196e9)}.get((num_ranks, num_bytes), (0, 0))
