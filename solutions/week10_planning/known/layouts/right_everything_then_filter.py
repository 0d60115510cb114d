"""Different: all combinations, then one condition."""

import math
from itertools import product


def layouts(num_gpus, gpus_per_server, num_layers, num_heads, sequences, microbatches):
    sizes = [d for d in range(1, num_gpus + 1) if num_gpus % d == 0]
    return [
        [tp, pp, num_gpus // tp // pp, b]
        for b, pp, tp in product(microbatches, sizes, sizes)
        if math.gcd(gpus_per_server, num_heads) % tp == 0
        and num_layers % pp == 0
        and num_gpus % (tp * pp) == 0
        and sequences % (num_gpus // tp // pp * b) == 0
    ]
