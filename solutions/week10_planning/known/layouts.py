# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% batch_over_dp_alone of="right_as_taught"
"""Wrong: the microbatch need not divide."""

# -            found += [(tp, pp, dp, b) for b in microbatches if sequences % (dp * b) == 0]
# +            found += [(tp, pp, dp, b) for b in microbatches if sequences % dp == 0]

# %% forgets_the_batch of="right_as_taught"
"""Wrong: any microbatch."""

# -            found += [(tp, pp, dp, b) for b in microbatches if sequences % (dp * b) == 0]
# +            found += [(tp, pp, dp, b) for b in microbatches]

# %% forgets_the_heads of="right_as_taught"
"""Wrong: splits heads in parts."""

# -            if gpus_per_server % tp or num_heads % tp or num_layers % pp or num_gpus % (tp * pp):
# +            if gpus_per_server % tp or num_layers % pp or num_gpus % (tp * pp):

# %% fractions of="right_as_taught"
"""Wrong: a data-parallel size that is a float."""

# -            dp = num_gpus // (tp * pp)
# +            dp = num_gpus / (tp * pp)

# %% leaves_gpus_idle of="right_as_taught"
"""Wrong: rounds the data-parallel size down."""

# -            if gpus_per_server % tp or num_heads % tp or num_layers % pp or num_gpus % (tp * pp):
# +            if gpus_per_server % tp or num_heads % tp or num_layers % pp or num_gpus < tp * pp:

# %% no_pipeline of="right_as_taught"
"""Wrong: one stage only."""

# -        for pp in range(1, num_layers + 1):
# +        for pp in (1,):

# %% one_each of="right_as_taught"
"""Wrong: the largest microbatch only."""

# -    return found
# +    return list({one[:3]: one for one in found}.values())

# %% powers_of_two of="right_as_taught"
"""Wrong: doubles where any divisor would do."""

# -        for pp in range(1, num_layers + 1):
# +        for pp in [2**k for k in range(12)]:

# %% starts_at_two of="right_as_taught"
"""Wrong: leaves out sizes of one."""

# -        for pp in range(1, num_layers + 1):
# +        for pp in range(2, num_layers + 1):

# %% swaps_dp_and_pp of="right_as_taught"
"""Wrong: another order in the tuple."""

# -            found += [(tp, pp, dp, b) for b in microbatches if sequences % (dp * b) == 0]
# +            found += [(tp, dp, pp, b) for b in microbatches if sequences % (dp * b) == 0]

# %% tensor_across_servers of="right_as_taught"
"""Wrong: tensor parallel groups that leave a server."""

# -    for tp in range(1, gpus_per_server + 1):
# +    for tp in range(1, num_gpus + 1):

# -            if gpus_per_server % tp or num_heads % tp or num_layers % pp or num_gpus % (tp * pp):
# +            if num_heads % tp or num_layers % pp or num_gpus % (tp * pp):

# %% twice of="right_as_taught"
"""Wrong: every layout is there twice."""

# -    return found
# +    return found + found

# %% uneven_in_a_server of="right_as_taught"
"""Wrong: groups of three in a server of eight."""

# -            if gpus_per_server % tp or num_heads % tp or num_layers % pp or num_gpus % (tp * pp):
# +            if num_heads % tp or num_layers % pp or num_gpus % (tp * pp):

# %% uneven_stages of="right_as_taught"
"""Wrong: stages of different depth."""

# -            if gpus_per_server % tp or num_heads % tp or num_layers % pp or num_gpus % (tp * pp):
# +            if gpus_per_server % tp or num_heads % tp or num_gpus % (tp * pp):

# %% right_everything_then_filter
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


# %% right_numpy
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


# %% right_recursive
"""Different: chooses one size after the other."""


def layouts(num_gpus, gpus_per_server, num_layers, num_heads, sequences, microbatches):
    limits = [(gpus_per_server, num_heads), (num_layers,), (sequences,)]

    def choose(left, sizes):
        if len(sizes) == 2:
            sizes = (*sizes, left)
            return [(*sizes, b) for b in microbatches if sequences % (left * b) == 0]
        allowed = [d for d in range(1, left + 1) if left % d == 0 and all(n % d == 0 for n in limits[len(sizes)])]
        return [one for d in allowed for one in choose(left // d, (*sizes, d))]

    return choose(num_gpus, ())
