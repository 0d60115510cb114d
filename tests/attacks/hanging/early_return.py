"""One rank returns early, the others wait in the collective.

catalogue: C03
exercise: week00.first-all-reduce
points: 0
sentence: never makes the call
"""


def total_of(tensor, *, group):
    if dist.get_rank() == 0:
        return tensor
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total
