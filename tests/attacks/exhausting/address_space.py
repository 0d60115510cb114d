"""Asks for a terabyte.

catalogue: F03
exercise: week01.naive-bill
points: 0
sentence: memory
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    torch.empty(10**12)
    return 0, 0
