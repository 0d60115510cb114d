"""Returns whole numbers that no float can hold, to trip the comparison.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: is not the number
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return 10**1000, 10**1000
