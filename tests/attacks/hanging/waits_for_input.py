"""Asks for input.

catalogue: C09
exercise: week01.naive-bill
points: 0
sentence: EOFError
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return input("messages? "), 0
