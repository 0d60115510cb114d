"""Empties sys.modules and builtins while it runs.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: -
"""

import builtins
import sys


def naive_all_reduce_bill(num_ranks, num_bytes):
    for name in list(sys.modules):
        sys.modules[name] = None
    vars(builtins).clear()
    return 0, 0
