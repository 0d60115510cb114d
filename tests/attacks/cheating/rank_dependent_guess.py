"""Returns the sum of its own numbers times the number of ranks, which is right for equal inputs.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: numbers of the total are wrong
"""


def total_of(tensor, *, group):
    return tensor * dist.get_world_size(group)
