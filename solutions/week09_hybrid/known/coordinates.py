# %% right_divmod from="page"
"""Different: takes digit after digit off the number."""

# %% outermost_first of="right_divmod"
"""Wrong: the last axis changes fastest, as in a torch tensor."""

# -    for name, size in sizes.items():
# -        rank, places[name] = divmod(rank, size)
# +    for name in reversed(sizes):
# +        rank, places[name] = divmod(rank, sizes[name])

# %% sorted_names of="right_divmod"
"""Wrong: goes through the axes by name instead of in their order."""

# -    for name, size in sizes.items():
# -        rank, places[name] = divmod(rank, size)
# +    for name in sorted(sizes):
# +        rank, places[name] = divmod(rank, sizes[name])

# %% right_numpy
"""Different: NumPy's unravel_index, and NumPy's numbers."""

import numpy as np


def coordinates(rank, sizes):
    n = list(sizes)[::-1]
    p = np.unravel_index(rank, [sizes[x] for x in n])
    return {x: p[i] for i, x in enumerate(n)}


# %% right_strides
"""Different: computes strides first."""

import math


def coordinates(rank, sizes):
    names = list(sizes)
    strides = [math.prod(sizes[other] for other in names[:place]) for place in range(len(names))]
    return {name: rank // stride % sizes[name] for name, stride in zip(names, strides, strict=True)}


# %% right_torch
"""Different: lets torch unravel the number, in any order of keys."""

import torch


def coordinates(rank, sizes):
    places = torch.unravel_index(torch.tensor(rank), tuple(reversed(sizes.values())))
    return {name: int(place) for name, place in zip(reversed(sizes), places, strict=True)}


# %% powers_of_two
"""Wrong: right where every axis has two ranks."""


def coordinates(rank, sizes):
    return {name: rank >> place & 1 for place, name in enumerate(sizes)}


# %% a_list of="powers_of_two"
"""Wrong: places without the names of their axes."""

# -    return {name: rank >> place & 1 for place, name in enumerate(sizes)}
# +    places = []
# +    for size in sizes.values():
# +        rank, place = divmod(rank, size)
# +        places.append(place)
# +    return places

# %% always_tp_dp_pp of="powers_of_two"
"""Wrong: knows three axes in one order."""

# -    return {name: rank >> place & 1 for place, name in enumerate(sizes)}
# +    tp, dp = sizes.get("tp", 1), sizes.get("dp", 1)
# +    places = {"tp": rank % tp, "dp": rank // tp % dp, "pp": rank // (tp * dp)}
# +    return {name: places.get(name, 0) for name in sizes}

# %% no_modulo of="powers_of_two"
"""Wrong: divides and forgets what turns over."""

# -    return {name: rank >> place & 1 for place, name in enumerate(sizes)}
# +    places, stride = {}, 1
# +    for name, size in sizes.items():
# +        places[name] = rank // stride
# +        stride *= size
# +    return places

# %% public_cases of="powers_of_two"
"""Wrong: returns the answers that the page shows."""

# -    return {name: rank >> place & 1 for place, name in enumerate(sizes)}
# +    return {"tp": 1, "dp": 0, "pp": 1} if rank == 5 else {"tp": 1, "dp": 2, "pp": 1}

# %% stride_of_neighbour of="powers_of_two"
"""Wrong: divides by the size before alone, not by the product of all before."""

# -    return {name: rank >> place & 1 for place, name in enumerate(sizes)}
# +    places, before = {}, 1
# +    for name, size in sizes.items():
# +        places[name] = rank // before % size
# +        before = size
# +    return places

# %% three_axes of="powers_of_two"
"""Wrong: right for three axes, further ones stay at 0."""

# -    return {name: rank >> place & 1 for place, name in enumerate(sizes)}
# +    k = list(sizes)
# +    s = [*sizes.values(), 1, 1]
# +    out = [rank % s[0], rank // s[0] % s[1], rank // s[0] // s[1]]
# +    return {n: [*out, 0, 0][i] for i, n in enumerate(k)}
