"""Gives the collective another shape on rank 0: gloo aborts the process.

catalogue: B05
exercise: week00.first-all-reduce
points: 0
sentence: diverge
"""


def total_of(tensor, *, group):
    total = torch.ones(8 if dist.get_rank() == 0 else 4)
    dist.all_reduce(total, group=group)
    return total
