"""Makes a process group although one is passed: that needs the store, and the store is a way past the wire.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: makes no process groups
"""


def total_of(tensor, *, group):
    group = dist.new_group([0, 1])
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total
