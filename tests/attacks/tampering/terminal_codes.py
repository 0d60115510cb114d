"""Puts codes for the terminal and text that runs backwards into its error.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: RuntimeError
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise RuntimeError("\x1b[2J\x1b]0;owned\x07\x1b[31m\u202eright all\u2066 \x00\x9b")
