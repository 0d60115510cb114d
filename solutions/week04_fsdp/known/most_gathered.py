# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% counts_twice of="right_as_taught"
"""Wrong: counts the last unit twice where the passes turn."""

# -    windows = [set(passes[place : place + prefetch + 1]) for place in range(len(passes))]
# +    windows = [passes[place : place + prefetch + 1] for place in range(len(passes))]

# %% ends_of_the_window of="right_as_taught"
"""Wrong: only the first and the last unit of each window.

Not in sight: with a prefetch of 1 a window has no others.
"""

# -    windows = [set(passes[place : place + prefetch + 1]) for place in range(len(passes))]
# +    windows = [{passes[place], passes[min(place + prefetch, len(passes) - 1)]} for place in range(len(passes))]

# %% largest_unit of="right_as_taught"
"""Wrong: forgets the units that are gathered ahead."""

# -    windows = [set(passes[place : place + prefetch + 1]) for place in range(len(passes))]
# +    windows = [{unit} for unit in passes]

# %% times_the_largest of="right_as_taught"
"""Wrong: multiplies the largest unit, as if all were equal."""

# -    return max(sum(unit_sizes[unit] for unit in window) for window in windows)
# +    return min(prefetch + 1, len(unit_sizes)) * max(unit_sizes) if windows else 0

# %% right_neighbors
"""Different: neighbors are enough, because the way back repeats them in reverse."""


def most_gathered(unit_sizes, prefetch):
    width = min(prefetch + 1, len(unit_sizes))
    return max(sum(unit_sizes[begin : begin + width]) for begin in range(len(unit_sizes) - width + 1))
