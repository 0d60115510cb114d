"""Returns NaN, in the right shape and dtype, for comparisons that NaN slips through.

catalogue: A16
exercise: week00.first-all-reduce
points: 0
sentence: numbers of the total are wrong
"""


def total_of(tensor, *, group):
    return tensor * float("nan")
