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
