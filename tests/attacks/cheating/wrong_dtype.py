"""Returns the right sum in another dtype.

catalogue: A16
exercise: week00.first-all-reduce
points: 0
sentence: has dtype float64 where float32 is expected
"""


def total_of(tensor, *, group):
    total = tensor.double()
    dist.all_reduce(total, group=group)
    return total
