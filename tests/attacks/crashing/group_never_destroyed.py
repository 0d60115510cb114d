"""Makes a right answer and leaves threads and groups of its own behind: the points stay.

catalogue: B07
exercise: week00.first-all-reduce
points: 1
sentence: Correct
cases: all
"""


def total_of(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    total_of.kept = dist.all_reduce(torch.ones(1), group=group, async_op=True)
    return total
