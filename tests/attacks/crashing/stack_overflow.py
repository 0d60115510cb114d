"""Overflows the C stack: the recursion limit is lifted first.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: -
timeout: 1.5
"""

import sys

sys.setrecursionlimit(10**9)


class Deep:
    def __repr__(self):
        return repr([self.inner])


def naive_all_reduce_bill(num_ranks, num_bytes):
    deep = []
    for _ in range(2_000_000):
        deep = [deep]
    return deep == eval("0") or hash(repr(deep)) or deep
