# %% right_by_name
"""Different: the places on the other axes are the name of a group."""

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


# %% a_list_for_each_rank of="right_by_name"
"""Wrong: lists the group of each rank, so that each stands there many times."""

# -    found = {}
# -    for rank in range(math.prod(sizes.values())):
# -        others = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
# -        found.setdefault(others, []).append(rank)
# -    return list(found.values())
# +    ranks = range(math.prod(sizes.values()))
# +
# +    def others(rank):
# +        return [place for name, place in coordinates(rank, sizes).items() if name not in axes]
# +
# +    return [[other for other in ranks if others(other) == others(rank)] for rank in ranks]

# %% first_axis_alone of="right_by_name"
"""Wrong: of several axes takes the first."""

# -        others = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
# -        found.setdefault(others, []).append(rank)
# +        key = tuple(place for name, place in coordinates(rank, sizes).items() if name != axes[0])
# +        found.setdefault(key, []).append(rank)

# %% groups_backwards of="right_by_name"
"""Wrong: the groups in another order than everybody else's."""

# -        others = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
# -        found.setdefault(others, []).append(rank)
# -    return list(found.values())
# +        key = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
# +        found.setdefault(key, []).append(rank)
# +    return list(reversed(found.values()))

# %% one_group_alone of="right_by_name"
"""Wrong: returns the group of rank 0 and forgets the others."""

# -    found = {}
# -    for rank in range(math.prod(sizes.values())):
# -        others = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
# -        found.setdefault(others, []).append(rank)
# -    return list(found.values())
# +    ranks = range(math.prod(sizes.values()))
# +    return [[r for r in ranks if all(not p for name, p in coordinates(r, sizes).items() if name not in axes)]]

# %% sets of="right_by_name"
"""Wrong: groups without an order; ranks in a group are numbered by it."""

# -    for rank in range(math.prod(sizes.values())):
# -        others = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
# -        found.setdefault(others, []).append(rank)
# -    return list(found.values())
# +    for rank in reversed(range(math.prod(sizes.values()))):
# +        key = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
# +        found.setdefault(key, []).append(rank)
# +    return list(reversed(found.values()))

# %% the_other_axes of="right_by_name"
"""Wrong: the ranks that agree on these axes, not on the others."""

# -        others = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
# -        found.setdefault(others, []).append(rank)
# +        key = tuple(place for name, place in coordinates(rank, sizes).items() if name in axes)
# +        found.setdefault(key, []).append(rank)

# %% right_numpy
"""Different: an array of ranks, turned; rows of NumPy's numbers."""

import numpy as np


def groups(axes, sizes):
    names = list(sizes)[::-1]
    g = np.arange(int(np.prod(list(sizes.values())))).reshape([sizes[n] for n in names])
    keep = [i for i, n in enumerate(names) if n not in axes]
    go = [i for i, n in enumerate(names) if n in axes]
    k = 1
    for i in go:
        k *= g.shape[i]
    r = np.sort(np.transpose(g, keep + go).reshape(-1, k), axis=1)
    return [list(x) for x in r[np.argsort(r[:, 0])]]


# %% right_strides
"""Different: a corner and steps along the axes."""

from itertools import product


def groups(axes, sizes):
    strides, so_far = {}, 1
    for name, size in sizes.items():
        strides[name] = so_far
        so_far *= size
    offsets = sorted(
        sum(step) for step in product(*([place * strides[name] for place in range(sizes[name])] for name in axes))
    )
    corners = [rank for rank in range(so_far) if all(rank // strides[name] % sizes[name] == 0 for name in axes)]
    return [tuple(corner + offset for offset in offsets) for corner in corners]


# %% right_tensor
"""Different: a tensor of all ranks, its wanted dims last."""

import math

import torch


def groups(axes, sizes):
    names = list(reversed(sizes))
    ranks = torch.arange(math.prod(sizes.values())).reshape([sizes[name] for name in names])
    others = [place for place, name in enumerate(names) if name not in axes]
    wanted = [place for place, name in enumerate(names) if name in axes]
    size = math.prod(sizes[name] for name in axes)
    return ranks.permute(*others, *wanted).reshape(-1, size).tolist()


# %% outermost_first of="right_tensor"
"""Wrong: numbers the ranks with the last axis as the innermost."""

# -    names = list(reversed(sizes))
# +    names = list(sizes)

# %% always_neighbours
"""Wrong: cuts the ranks in runs, whatever the axis."""

import math


def groups(axes, sizes):
    size = math.prod(sizes[name] for name in axes)
    ranks = list(range(math.prod(sizes.values())))
    return [ranks[begin : begin + size] for begin in range(0, len(ranks), size)]


# %% two_on_each_axis
"""Wrong: right where every axis has two ranks."""


def groups(axes, sizes):
    bits = [1 << place for place, name in enumerate(sizes) if name in axes]
    mask, world = sum(bits), 2 ** len(sizes)
    return [[r for r in range(world) if r & ~mask == corner] for corner in range(world) if not corner & mask]
