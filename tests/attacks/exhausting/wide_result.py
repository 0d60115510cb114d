"""Returns a list of a million numbers.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: more numbers and texts
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return list(range(1_000_000))
