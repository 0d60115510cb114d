# %% right_by_trying
"""Different: tries one number after the other with exact fractions."""

from fractions import Fraction


def smallest_num_microbatches(num_ranks, percent):
    num_microbatches = 1
    while Fraction(num_ranks - 1, num_microbatches + num_ranks - 1) >= Fraction(percent, 100):
        num_microbatches += 1
    return num_microbatches


# %% right_formula
"""Different: a whole-number division."""


def smallest_num_microbatches(num_ranks, percent):
    return max(1, (num_ranks - 1) * (100 - percent) // percent + 1)


# %% bubble_over_work of="right_formula"
"""Wrong: (P-1)/M for the bubble, the ratio to the working time."""

# -    return max(1, (num_ranks - 1) * (100 - percent) // percent + 1)
# +    return 100 * (num_ranks - 1) // percent + 1

# %% four_times_the_ranks of="right_formula"
"""Wrong: the rule of thumb M = 4P."""

# -    return max(1, (num_ranks - 1) * (100 - percent) // percent + 1)
# +    return 4 * num_ranks

# %% interview_answer of="right_formula"
"""Wrong: the answer to the interview question alone."""

# -    return max(1, (num_ranks - 1) * (100 - percent) // percent + 1)
# +    return 64

# %% not_above of="right_formula"
"""Wrong: 63 for 8 ranks, where the bubble is 10 per cent and not below."""

# -    return max(1, (num_ranks - 1) * (100 - percent) // percent + 1)
# +    num_microbatches = 1
# +    while 100 * (num_ranks - 1) > percent * (num_microbatches + num_ranks - 1):
# +        num_microbatches += 1
# +    return num_microbatches

# %% returns_a_fraction of="right_formula"
"""Wrong: the limit itself, which is no number of microbatches."""

# -    return max(1, (num_ranks - 1) * (100 - percent) // percent + 1)
# +    return (num_ranks - 1) * (100 / percent - 1)

# %% zero_for_one_rank of="right_formula"
"""Wrong: no microbatch at all for one rank."""

# -    return max(1, (num_ranks - 1) * (100 - percent) // percent + 1)
# +    limit = (num_ranks - 1) * (100 - percent)
# +    return limit // percent + 1 if limit else 0

# %% rounds_up
"""Wrong: rounds (P-1)(1/b - 1) up, one too few when it is whole."""

import math


def smallest_num_microbatches(num_ranks, percent):
    return max(1, math.ceil((num_ranks - 1) * (100 - percent) / percent))
