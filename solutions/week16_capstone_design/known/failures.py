# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% one_gpu of="right_as_taught"
"""Wrong: the hours of one GPU for those of the run."""

# -    hours = hours_of_one / num_gpus
# +    hours = hours_of_one

# %% in_days of="right_as_taught"
"""Wrong: days between failures."""

# -    return hours, 24 * days / hours, exp(-24 / hours)
# +    return hours / 24, 24 * days / hours, exp(-24 / hours)

# %% hours_for_days of="right_as_taught"
"""Wrong: counts the days as hours."""

# -    return hours, 24 * days / hours, exp(-24 / hours)
# +    return hours, days / hours, exp(-24 / hours)

# %% first_order of="right_as_taught"
"""Wrong: 1 - t/M, which is below 0 where failures come more than once a day."""

# -    return hours, 24 * days / hours, exp(-24 / hours)
# +    return hours, 24 * days / hours, 1 - 24 / hours

# %% a_failure of="right_as_taught"
"""Wrong: the probability of a day with a failure."""

# -    return hours, 24 * days / hours, exp(-24 / hours)
# +    return hours, 24 * days / hours, 1 - exp(-24 / hours)

# %% whole_run of="right_as_taught"
"""Wrong: the probability of the whole run without one."""

# -    return hours, 24 * days / hours, exp(-24 / hours)
# +    return hours, 24 * days / hours, exp(-24 * days / hours)

# %% each_gpu_a_coin of="right_as_taught"
"""Wrong: one GPU, not all of them, lives for a day."""

# -    return hours, 24 * days / hours, exp(-24 / hours)
# +    return hours, 24 * days / hours, exp(-24 / hours_of_one)

# %% rounded of="right_as_taught"
"""Wrong: whole failures."""

# -    return hours, 24 * days / hours, exp(-24 / hours)
# +    return hours, round(24 * days / hours), exp(-24 / hours)

# %% two_numbers of="right_as_taught"
"""Wrong: forgets the quiet day."""

# -    return hours, 24 * days / hours, exp(-24 / hours)
# +    return hours, 24 * days / hours

# %% by_heart of="right_as_taught"
"""Wrong: knows what the page asks.

Not in sight: it has the public cases by heart.
"""

# -    hours = hours_of_one / num_gpus
# +    hours = {16384: 50000 / 16384, 8: 6250.0}.get(num_gpus, 1.0)

# %% right_by_rate
"""Different: failures an hour first, and a power for the quiet day."""

import math


def interruptions(num_gpus, hours_of_one, days):
    per_hour = num_gpus / hours_of_one
    return [1 / per_hour, days * 24 * per_hour, math.e ** (-24 * per_hour)]


# %% right_tensor
"""Different: three numbers in one tensor."""

import torch


def interruptions(num_gpus, hours_of_one, days):
    hours = torch.tensor(hours_of_one, dtype=torch.float64) / num_gpus
    return list(torch.stack([hours, 24 * days / hours, torch.exp(-24 / hours)]).tolist())
