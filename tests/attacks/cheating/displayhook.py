"""Prints an execution result from inside the function, which stock nbgrader takes for the points.

catalogue: A02
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

import sys


def naive_all_reduce_bill(num_ranks, num_bytes):
    sys.displayhook("x")
    return 0, 0
