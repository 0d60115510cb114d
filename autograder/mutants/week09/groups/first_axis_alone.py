"""Wrong: of several axes takes the first."""

import math


def coordinates(rank, sizes):
    places = {}
    for name, size in sizes.items():
        rank, places[name] = divmod(rank, size)
    return places


def groups(axes, sizes):
    found = {}
    for rank in range(math.prod(sizes.values())):
        key = tuple(place for name, place in coordinates(rank, sizes).items() if name != axes[0])
        found.setdefault(key, []).append(rank)
    return list(found.values())
