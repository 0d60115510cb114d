"""Loops forever without a pause.

catalogue: C01
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    while True:
        pass
