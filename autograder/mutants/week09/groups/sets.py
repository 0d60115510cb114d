"""Wrong: groups without an order; ranks in a group are numbered by it."""

import math


def coordinates(rank, sizes):
    places = {}
    for name, size in sizes.items():
        rank, places[name] = divmod(rank, size)
    return places


def groups(axes, sizes):
    found = {}
    for rank in reversed(range(math.prod(sizes.values()))):
        key = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
        found.setdefault(key, []).append(rank)
    return list(reversed(found.values()))
