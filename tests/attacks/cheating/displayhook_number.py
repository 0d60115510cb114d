"""Picks its own partial credit through the display hook.

catalogue: A03
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

import sys


def naive_all_reduce_bill(num_ranks, num_bytes):
    sys.displayhook(1.0)
    return 0, 0
