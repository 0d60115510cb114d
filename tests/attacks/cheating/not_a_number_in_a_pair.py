"""Returns NaN and infinity where numbers are due.

catalogue: A16
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return float("nan"), float("inf")
