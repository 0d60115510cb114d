"""Leaves by an interrupt that carries twenty megabytes of text, so that the report is too long to read.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: xxxx
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise KeyboardInterrupt("x" * 20_000_000)
