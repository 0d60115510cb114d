"""Returns a list nested a hundred thousand levels deep.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: Your return value cannot be sent back
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    return deep
