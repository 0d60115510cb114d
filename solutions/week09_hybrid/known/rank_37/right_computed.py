"""Different: computed from the groups."""

import math


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


def groups_of_rank_37():
    sizes = {"tp": 8, "dp": 2, "pp": 4}
    found = {name: next(group for group in groups([name], sizes) if 37 in group) for name in sizes}
    return found | {"leaves": [name for name, group in found.items() if len({rank // 8 for rank in group}) > 1]}
