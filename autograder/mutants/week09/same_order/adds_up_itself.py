"""Wrong: guesses what the others hold; nothing is sent."""

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
    rank = dist.get_rank()
    mine = {name: next(group for group in groups([name], sizes) if rank in group) for name in sizes}
    return {name: number.item() + sum(2.0**other for other in group if other != rank) for name, group in mine.items()}
