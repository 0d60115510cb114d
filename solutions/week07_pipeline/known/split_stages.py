# %% right_bisection
"""Different: looks for the smallest limit by bisection and keeps a layer for each stage to come."""


def fill(seconds, num_stages, limit):
    sizes, place = [], 0
    for stages_left in range(num_stages - 1, -1, -1):
        size = filled = 0
        while place + size < len(seconds) - stages_left and filled + seconds[place + size] <= limit:
            filled += seconds[place + size]
            size += 1
        sizes.append(size)
        place += size
    return sizes if place == len(seconds) and min(sizes) > 0 else None


def split_stages(seconds, num_stages):
    low, high = max(seconds) - 1, sum(seconds)
    while high - low > 1:
        middle = (low + high) // 2
        if fill(seconds, num_stages, middle):
            high = middle
        else:
            low = middle
    return fill(seconds, num_stages, high)


# %% right_every_cut
"""Different: tries every way to cut."""

from itertools import combinations, pairwise


def split_stages(seconds, num_stages):
    def slowest(cuts):
        edges = (0, *cuts, len(seconds))
        return max(sum(seconds[begin:end]) for begin, end in pairwise(edges))

    best = min(combinations(range(1, len(seconds)), num_stages - 1), key=slowest)
    return [end - begin for begin, end in pairwise((0, *best, len(seconds)))]


# %% right_recursion
"""Different: the first stage takes 1, 2, ... layers, the rest is the same question, remembered."""

from functools import cache


def split_stages(seconds, num_stages):
    @cache
    def best(begin, stages):
        if stages == 1:
            return sum(seconds[begin:]), (len(seconds) - begin,)
        found = []
        for cut in range(begin + 1, len(seconds) - stages + 2):
            slowest, sizes = best(cut, stages - 1)
            found.append((max(slowest, sum(seconds[begin:cut])), (cut - begin, *sizes)))
        return min(found)

    return list(best(0, num_stages)[1])


# %% drops_the_rest
"""Wrong: rounds down and loses the layers that are left over."""


def split_stages(seconds, num_stages):
    return [len(seconds) // num_stages] * num_stages


# %% equal_layers of="drops_the_rest"
"""Wrong: as many layers for every stage, whatever they cost."""

# -    return [len(seconds) // num_stages] * num_stages
# +    base, more = divmod(len(seconds), num_stages)
# +    return [base + (stage < more) for stage in range(num_stages)]

# %% fills_to_the_mean of="drops_the_rest"
"""Wrong: closes a stage as soon as it has its share of the mean, the last takes what is left."""

# -    return [len(seconds) // num_stages] * num_stages
# +    share, sizes, size, filled = sum(seconds) / num_stages, [], 0, 0
# +    for place, second in enumerate(seconds):
# +        size, filled = size + 1, filled + second
# +        stages_left = num_stages - len(sizes) - 1
# +        layers_left = len(seconds) - place - 1
# +        if stages_left and (filled >= share or layers_left == stages_left):
# +            sizes.append(size)
# +            size, filled = 0, 0
# +    return [*sizes, size]

# %% leaves_ranks_empty of="drops_the_rest"
"""Wrong: the best limit, filled from the left, so that the last stages may have no layer."""

# -    return [len(seconds) // num_stages] * num_stages
# +    limit = max(seconds)
# +    while True:
# +        sizes, filled = [0], 0
# +        for second in seconds:
# +            if filled + second > limit:
# +                sizes.append(0)
# +                filled = 0
# +            sizes[-1] += 1
# +            filled += second
# +        if len(sizes) <= num_stages:
# +            return sizes + [0] * (num_stages - len(sizes))
# +        limit += 1

# %% returns_the_layers of="drops_the_rest"
"""Wrong: returns the layers of each stage, not how many they are."""

# -    return [len(seconds) // num_stages] * num_stages
# +    base, more = divmod(len(seconds), num_stages)
# +    sizes = [base + (stage < more) for stage in range(num_stages)]
# +    return [seconds[sum(sizes[:stage]) : sum(sizes[: stage + 1])] for stage in range(num_stages)]

# %% sorts_the_layers of="drops_the_rest"
"""Wrong: puts layers on stages by weight, as if their order did not matter, and returns how many each has."""

# -    return [len(seconds) // num_stages] * num_stages
# +    loads, sizes = [0] * num_stages, [0] * num_stages
# +    for second in sorted(seconds, reverse=True):
# +        lightest = loads.index(min(loads))
# +        loads[lightest] += second
# +        sizes[lightest] += 1
# +    return sizes

# %% two_stages_only of="drops_the_rest"
"""Wrong: the best cut in two, then the rest one layer a stage."""

# -    return [len(seconds) // num_stages] * num_stages
# +    if num_stages == 1:
# +        return [len(seconds)]
# +    cuts = range(1, len(seconds) - num_stages + 2)
# +    cut = min(cuts, key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))
# +    return [cut, *[1] * (num_stages - 2), len(seconds) - cut - num_stages + 2]
