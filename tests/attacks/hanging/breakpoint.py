"""Stops in the debugger.

catalogue: C09
exercise: week01.naive-bill
points: 0
sentence: Bdb
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    breakpoint()
    return 0, 0
