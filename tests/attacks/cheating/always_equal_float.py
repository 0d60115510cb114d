"""A float that is equal to everything, given back as the answer.

catalogue: A01
exercise: week01.naive-bill
points: 0
sentence: Your return value cannot be sent back
"""


class Anything(float):
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True
    __sub__ = __rsub__ = __abs__ = lambda self, *other: self


def naive_all_reduce_bill(num_ranks, num_bytes):
    return Anything()
