"""Reduces into the caller's own tensor and returns it.

catalogue: A16
exercise: week00.first-all-reduce
points: 0
sentence: changes the tensors it was given
"""


def total_of(tensor, *, group):
    dist.all_reduce(tensor, group=group)
    return tensor
