"""Prints forever.

catalogue: F06
exercise: week01.naive-bill
points: 0
sentence: -
timeout: 3
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    while True:
        print("x" * 100_000)
