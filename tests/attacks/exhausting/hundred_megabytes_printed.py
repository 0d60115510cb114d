"""Prints a hundred megabytes and then answers wrongly.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: -
timeout: 4
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    for _ in range(1000):
        print("x" * 100_000)
    return 0, 0
