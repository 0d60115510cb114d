"""Raises an exception whose text takes forever.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""


class Slow(Exception):
    def __str__(self):
        while True:
            pass


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise Slow
