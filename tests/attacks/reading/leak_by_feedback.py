"""Prints its inputs and its stack, to read them in the feedback: prints of a graded run are not shown.

catalogue: D10
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

import traceback


def naive_all_reduce_bill(num_ranks, num_bytes):
    print("LEAK", num_ranks, num_bytes)
    traceback.print_stack()
    return 0, 0
