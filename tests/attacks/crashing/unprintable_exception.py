"""Raises an exception whose text cannot be made.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: raised an exception
"""


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise Unprintable
