"""Wrong: lists the group of each rank, so that each stands there many times."""

import math


def coordinates(rank, sizes):
    places = {}
    for name, size in sizes.items():
        rank, places[name] = divmod(rank, size)
    return places


def groups(axes, sizes):
    ranks = range(math.prod(sizes.values()))

    def others(rank):
        return [place for name, place in coordinates(rank, sizes).items() if name not in axes]

    return [[other for other in ranks if others(other) == others(rank)] for rank in ranks]
