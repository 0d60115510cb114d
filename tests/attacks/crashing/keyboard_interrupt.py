"""Raises what an interrupt would raise.

catalogue: B03
exercise: week01.naive-bill
points: 0
sentence: KeyboardInterrupt
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise KeyboardInterrupt
