# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% a_float of="right_as_taught"
"""Wrong: where the two lines cross, not a whole number."""

# -    return max(num_ranks, int(saved // extra) + 1)
# +    return saved / extra

# %% below_the_ranks of="right_as_taught"
"""Wrong: numbers of microbatches below the number of ranks, where both formulas do not hold."""

# -    return max(num_ranks, int(saved // extra) + 1)
# +    return int(saved // extra) + 1

# %% forgets_the_extra_in_the_bubble of="right_as_taught"
"""Wrong: the bubble of ZB-H1 has the extra time too."""

# -    saved = (num_ranks - 1) * (2 * weight_gradient - extra)
# +    saved = (num_ranks - 1) * (2 * weight_gradient)

# %% num_ranks_hops of="right_as_taught"
"""Wrong: counts ranks for hops."""

# -    saved = (num_ranks - 1) * (2 * weight_gradient - extra)
# +    saved = num_ranks * (2 * weight_gradient - extra)

# %% one_weight of="right_as_taught"
"""Wrong: ZB-H1 saves two weight gradients a hop, not one."""

# -    saved = (num_ranks - 1) * (2 * weight_gradient - extra)
# +    saved = (num_ranks - 1) * (weight_gradient - extra)

# %% public_number of="right_as_taught"
"""Wrong: the number of the visible case."""

# -    saved = (num_ranks - 1) * (2 * weight_gradient - extra)
# -    return max(num_ranks, int(saved // extra) + 1)
# +    return 35

# %% rounds_down of="right_as_taught"
"""Wrong: the last number at which ZB-H1 still wins."""

# -    return max(num_ranks, int(saved // extra) + 1)
# +    return max(num_ranks, int(saved // extra))

# %% total_extra_once of="right_as_taught"
"""Wrong: the extra time counted once per rank and not once per microbatch."""

# -    return max(num_ranks, int(saved // extra) + 1)
# +    return max(num_ranks, int(saved // (extra * num_ranks)) + 1)

# %% right_by_search
"""Different: counts up until 1F1B is quicker."""


def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    whole = 3 * weight_gradient
    split = whole + extra
    m = num_ranks
    while (m + num_ranks - 1) * whole >= m * split + (num_ranks - 1) * (split - 2 * weight_gradient):
        m += 1
    return m


# %% right_ceiling
"""Different: rounds up the crossing."""

import math


def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    crossing = (num_ranks - 1) * (2 * weight_gradient / extra - 1)
    return max(num_ranks, math.floor(crossing) + 1)


# %% as_quick_at_a_tie of="right_ceiling"
"""Wrong: at a tie, where both take as long, it takes 1F1B for quicker."""

# -    crossing = (num_ranks - 1) * (2 * weight_gradient / extra - 1)
# -    return max(num_ranks, math.floor(crossing) + 1)
# +    saved = (num_ranks - 1) * (2 * weight_gradient - extra)
# +    return max(num_ranks, math.ceil(saved / extra))


# %% right_in_fractions
"""Different: exact arithmetic with the decimals as written, so that no tie depends on rounding."""

from fractions import Fraction
from math import floor


def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    weight, extra = Fraction(str(weight_gradient)), Fraction(str(extra))
    return max(num_ranks, floor((num_ranks - 1) * (2 * weight - extra) / extra) + 1)
