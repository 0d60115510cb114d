"""Wrong: the order of a set of names, which differs from process to process."""

import math
import zlib

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
    sums, rank = {}, dist.get_rank()
    names = sorted(sizes, key=lambda name: zlib.crc32(f"{name} {rank}".encode()))  # as a set's, and the same each time
    for name in names:
        for members in groups([name], sizes):
            made = dist.new_group(members)
            if rank in members:
                sums[name] = number.clone()
                dist.all_reduce(sums[name], group=made)
    return sums
