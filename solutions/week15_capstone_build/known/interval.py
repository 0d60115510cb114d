# %% right_as_taught from="page"
"""Different: the page's own formula."""

# %% of_one_gpu of="right_as_taught"
"""Wrong: the time between failures of one GPU."""

# -    between = years_between_failures * 365 * 24 * 3600 / gpus
# +    between = years_between_failures * 365 * 24 * 3600

# %% without_two of="right_as_taught"
"""Wrong: forgets the 2 under the root."""

# -    young = (2 * save_seconds * between) ** 0.5
# +    young = (save_seconds * between) ** 0.5

# %% daly_with_save of="right_as_taught"
"""Wrong: Daly's interval still has the save in it."""

# -    daly = young * (1 + ratio**0.5 / 3 + ratio / 9) - save_seconds
# +    daly = young * (1 + ratio**0.5 / 3 + ratio / 9)

# %% daly_first_term of="right_as_taught"
"""Wrong: Daly's series ends one term too early."""

# -    daly = young * (1 + ratio**0.5 / 3 + ratio / 9) - save_seconds
# +    daly = young * (1 + ratio**0.5 / 3) - save_seconds

# %% whole_interval_lost of="right_as_taught"
"""Wrong: each failure loses a whole interval."""

# -        return interval / whole * (1 - (restart_seconds + whole / 2) / between)
# +        return interval / whole * (1 - (restart_seconds + whole) / between)

# %% no_restart of="right_as_taught"
"""Wrong: restarts take no time."""

# -        return interval / whole * (1 - (restart_seconds + whole / 2) / between)
# +        return interval / whole * (1 - (whole / 2) / between)

# %% free_saves of="right_as_taught"
"""Wrong: saves take no time."""

# -        return interval / whole * (1 - (restart_seconds + whole / 2) / between)
# +        return (1 - (restart_seconds + whole / 2) / between)

# %% hour_of_minutes of="right_as_taught"
"""Wrong: an hour has 60 of something."""

# -    return [between, young, daly, goodput(young), goodput(3600)]
# +    return [between, young, daly, goodput(young), goodput(60)]

# %% percent of="right_as_taught"
"""Wrong: in percent."""

# -    return [between, young, daly, goodput(young), goodput(3600)]
# +    return [between, young, daly, 100 * goodput(young), 100 * goodput(3600)]

# %% right_by_loss
"""Different: by what is lost, with math."""

import math


def checkpoint_numbers(gpus, years_between_failures, save_seconds, restart_seconds):
    mean = years_between_failures / gpus * 31_536_000
    root = math.sqrt(save_seconds / 2 / mean)
    young = 2 * mean * root
    daly = young + young * root / 3 + young * root * root / 9 - save_seconds
    shares = []
    for work in (young, 3600.0):
        period = work + save_seconds
        lost = restart_seconds / mean + period / mean / 2
        shares.append((1 - save_seconds / period) * (1 - lost))
    return [mean, young, daly, *shares]
