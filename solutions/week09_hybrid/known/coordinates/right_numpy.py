"""Different: NumPy's unravel_index, and NumPy's numbers."""

import numpy as np


def coordinates(rank, sizes):
    n = list(sizes)[::-1]
    p = np.unravel_index(rank, [sizes[x] for x in n])
    return {x: p[i] for i, x in enumerate(n)}
