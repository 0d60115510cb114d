"""Different: sizes are NumPy's numbers."""

import numpy as np


def layouts(num_gpus, gpus_per_server, num_layers, num_heads, sequences, microbatches):
    T = np.arange(1, gpus_per_server + 1)
    T = T[(gpus_per_server % T == 0) & (num_heads % T == 0)]
    Q = np.arange(1, num_layers + 1)
    Q = Q[num_layers % Q == 0]
    return [
        (t, p, num_gpus // (t * p), b)
        for t in T
        for p in Q
        if num_gpus % (t * p) == 0
        for b in microbatches
        if sequences % (num_gpus // (t * p) * b) == 0
    ]
