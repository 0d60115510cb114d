"""Rank 0 broadcasts while the others reduce.

catalogue: C04
exercise: week00.first-all-reduce
points: 0
sentence: diverge
timeout: 1.5
"""


def total_of(tensor, *, group):
    total = tensor.clone()
    if dist.get_rank() == 0:
        dist.broadcast(total, group_src=0, group=group)
    else:
        dist.all_reduce(total, group=group)
    return total
