"""Wrong: returns the group of rank 0 and forgets the others."""

import math


def coordinates(rank, sizes):
    places = {}
    for name, size in sizes.items():
        rank, places[name] = divmod(rank, size)
    return places


def groups(axes, sizes):
    ranks = range(math.prod(sizes.values()))
    return [[r for r in ranks if all(not p for name, p in coordinates(r, sizes).items() if name not in axes)]]
