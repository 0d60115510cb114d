"""Calls the library's all-reduce where a ring of messages is asked for.

catalogue: A17
exercise: week01.ring-all-reduce
points: 0
sentence: calls all_reduce
cases: part:all-reduce
"""


def ring_all_gather(chunk, sizes, *, group):
    raise NotImplementedError


def ring_all_reduce(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total
