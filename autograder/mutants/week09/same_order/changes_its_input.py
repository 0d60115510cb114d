"""Wrong: adds up in the caller's tensor."""

import math

import torch.distributed as dist


def coordinates(rank, sizes):
    places = {}
    for name, size in sizes.items():
        rank, places[name] = divmod(rank, size)
    return places


def groups(axes, sizes):
    found = {}
    for rank in range(math.prod(sizes.values())):
        others = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
        found.setdefault(others, []).append(rank)
    return list(found.values())


def sum_on_each_axis(number, sizes):
    sums = {}
    for name in sizes:
        group, _ = dist.new_subgroups_by_enumeration(groups([name], sizes))
        before = number.clone()
        dist.all_reduce(number, group=group)
        sums[name] = number.clone()
        number.copy_(before if name != list(sizes)[-1] else number)
    return sums
