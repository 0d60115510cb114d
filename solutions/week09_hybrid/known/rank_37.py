# %% right_computed
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


# %% right_numpy
"""Different: slices of an array of ranks."""

import numpy as np


def groups_of_rank_37():
    g = np.arange(64).reshape(4, 2, 8)
    return {"tp": list(g[2, 0]), "dp": list(g[2, :, 5]), "pp": list(g[:, 0, 5]), "leaves": ["dp", "pp"]}


# %% right_written_down
"""Different: written down by hand."""


def groups_of_rank_37():
    return {"tp": [32, 33, 34, 35, 36, 37, 38, 39], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["pp", "dp"]}


# %% from_one of="right_written_down"
"""Wrong: counts ranks from one."""

# -    return {"tp": [32, 33, 34, 35, 36, 37, 38, 39], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["pp", "dp"]}
# +    return {"tp": [33, 34, 35, 36, 37, 38, 39, 40], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["dp", "pp"]}

# %% only_pp_leaves of="right_written_down"
"""Wrong: says that data parallelism stays in the node."""

# -    return {"tp": [32, 33, 34, 35, 36, 37, 38, 39], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["pp", "dp"]}
# +    return {"tp": [32, 33, 34, 35, 36, 37, 38, 39], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["pp"]}

# %% outermost_first of="right_written_down"
"""Wrong: tensor-parallel ranks far apart."""

# -    return {"tp": [32, 33, 34, 35, 36, 37, 38, 39], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["pp", "dp"]}
# +    return {"tp": [5, 13, 21, 29, 37, 45, 53, 61], "dp": [33, 37], "pp": [36, 37, 38, 39], "leaves": ["dp", "pp"]}

# %% pipeline_before_data of="right_written_down"
"""Wrong: numbers the stages before the replicas."""

# -    return {"tp": [32, 33, 34, 35, 36, 37, 38, 39], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["pp", "dp"]}
# +    return {"tp": [32, 33, 34, 35, 36, 37, 38, 39], "dp": [5, 37], "pp": [37, 45, 53, 61], "leaves": ["dp", "pp"]}

# %% tp_leaves_too of="right_written_down"
"""Wrong: says that tensor parallelism leaves the node."""

# -    return {"tp": [32, 33, 34, 35, 36, 37, 38, 39], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["pp", "dp"]}
# +    return {"tp": [32, 33, 34, 35, 36, 37, 38, 39], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["tp", "dp", "pp"]}

# %% without_itself of="right_written_down"
"""Wrong: leaves rank 37 out of its own groups."""

# -    return {"tp": [32, 33, 34, 35, 36, 37, 38, 39], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["pp", "dp"]}
# +    return {"tp": [32, 33, 34, 35, 36, 38, 39], "dp": [45], "pp": [5, 21, 53], "leaves": ["dp", "pp"]}
