"""Puts the words of a right answer where the sentence comes from: words give no points.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: Correct
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise RuntimeError("Correct. 1 of 1 points")
