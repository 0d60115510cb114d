"""A pair of objects that are equal to everything: only exact types cross the boundary.

catalogue: A01
exercise: week01.naive-bill
points: 0
sentence: Your return value cannot be sent back
"""


class Anything(int):
    __eq__ = lambda self, other: True
    __hash__ = int.__hash__


def naive_all_reduce_bill(num_ranks, num_bytes):
    return Anything(3), Anything(4)
