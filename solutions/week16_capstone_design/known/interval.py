# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% without_the_two of="right_as_taught"
"""Wrong: the square root without its 2."""

# -    return (2 * save * between) ** 0.5
# +    return (save * between) ** 0.5

# %% between_alone of="right_as_taught"
"""Wrong: writes when a failure is due."""

# -    return (2 * save * between) ** 0.5
# +    return between

# %% daly_s_order of="right_as_taught"
"""Wrong: Daly's higher order, where Young's is asked for."""

# -    return (2 * save * between) ** 0.5
# +    x = (save / (2 * between)) ** 0.5
# +    return (2 * save * between) ** 0.5 * (1 + x / 3 + x * x / 9) - save

# %% from_the_beginning of="right_as_taught"
"""Wrong: subtracts the time to write."""

# -    return (2 * save * between) ** 0.5
# +    return (2 * save * between) ** 0.5 - save

# %% in_minutes of="right_as_taught"
"""Wrong: in minutes."""

# -    return (2 * save * between) ** 0.5
# +    return (2 * save * between) ** 0.5 / 60

# %% first_order of="right_as_taught"
"""Wrong: 1 minus the first-order costs."""

# -    return interval / (between * exp(restart / between) * expm1((interval + save) / between))
# +    return 1 - save / interval - (interval / 2 + restart) / between

# %% no_restart of="right_as_taught"
"""Wrong: work goes on at once."""

# -    return interval / (between * exp(restart / between) * expm1((interval + save) / between))
# +    return interval / (between * expm1((interval + save) / between))

# %% restarts_are_safe of="right_as_taught"
"""Wrong: a restart cannot fail."""

# -    return interval / (between * exp(restart / between) * expm1((interval + save) / between))
# +    return interval / ((between + restart) * expm1((interval + save) / between))

# %% checkpoint_is_work of="right_as_taught"
"""Wrong: counts the checkpoint as work."""

# -    return interval / (between * exp(restart / between) * expm1((interval + save) / between))
# +    return (interval + save) / (between * exp(restart / between) * expm1((interval + save) / between))

# %% checkpoint_is_free of="right_as_taught"
"""Wrong: a checkpoint takes no time."""

# -    return interval / (between * exp(restart / between) * expm1((interval + save) / between))
# +    return interval / (between * exp(restart / between) * expm1(interval / between))

# %% never_fails of="right_as_taught"
"""Wrong: the cost of checkpoints alone."""

# -    return interval / (between * exp(restart / between) * expm1((interval + save) / between))
# +    return interval / (interval + save)

# %% the_loss of="right_as_taught"
"""Wrong: the share that is lost."""

# -    return interval / (between * exp(restart / between) * expm1((interval + save) / between))
# +    return 1 - interval / (between * exp(restart / between) * expm1((interval + save) / between))

# %% by_heart of="right_as_taught"
"""Wrong: rounds to what the page shows.

Not in sight: it has the public cases by heart.
"""

# -    return (2 * save * between) ** 0.5
# +    return {3: 66000 ** 0.5, 200: 4000.0}.get(save, 1.0)

# %% right_expected_time
"""Different: attempts until one succeeds; each failure costs what was done, and restarts until one succeeds."""

import math


def best_interval(save, between):
    return math.sqrt(2.0) * math.sqrt(save) * math.sqrt(between)


def goodput(interval, save, between, restart):
    succeeds = math.exp(-(interval + save) / between)
    failures = (1 - succeeds) / succeeds
    restarted = between * (math.exp(restart / between) - 1)
    needed = failures * (between + restarted)
    return interval / needed


# %% right_logarithms
"""Different: adds logarithms."""

import math


def best_interval(save, between):
    return math.exp((math.log(2) + math.log(save) + math.log(between)) / 2)


def goodput(interval, save, between, restart):
    whole = (interval + save) / between
    logarithm = math.log(interval) - math.log(between) - restart / between - math.log(math.exp(whole) - 1)
    return math.exp(logarithm)
