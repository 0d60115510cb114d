"""Makes a new group on one rank alone.

catalogue: C13
exercise: week00.first-all-reduce
points: 0
sentence: ank
timeout: 2.5
"""


def total_of(tensor, *, group):
    if dist.get_rank() == 0:
        group = dist.new_group([0, 1])
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total
