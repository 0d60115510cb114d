"""Different: slices of an array of ranks."""

import numpy as np


def groups_of_rank_37():
    g = np.arange(64).reshape(4, 2, 8)
    return {"tp": list(g[2, 0]), "dp": list(g[2, :, 5]), "pp": list(g[:, 0, 5]), "leaves": ["dp", "pp"]}
