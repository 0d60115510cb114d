# %% right_bisection
"""Different: tries limits of time, each stage as long as it can be."""


def cut(layers, num_stages, num_microbatches, limit_bytes):
    def filled(most):
        sizes, place = [], 0
        for stage in range(num_stages):
            in_flight, seconds, held, size = min(num_stages - stage, num_microbatches), 0, 0, 0
            while place + size < len(layers) - (num_stages - stage - 1):
                s, p, a = layers[place + size]
                if seconds + s > most or held + p + in_flight * a > limit_bytes:
                    break
                seconds, held, size = seconds + s, held + p + in_flight * a, size + 1
            sizes.append(size)
            place += size
        return sizes if place == len(layers) and min(sizes) > 0 else None

    low, high = 0, sum(layer[0] for layer in layers)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if filled(middle) else (middle + 1, high)
    return filled(low)


# %% right_numpy
"""Different: the same tables as NumPy's arrays."""

import numpy as np


def cut(layers, num_stages, num_microbatches, limit_bytes):
    n = len(layers)
    A = np.array(layers, dtype=float)
    C = np.vstack([np.zeros(3), A.cumsum(0)])
    best = np.full((num_stages + 1, n + 1), np.inf)
    best[0, 0] = 0
    frm = np.zeros((num_stages + 1, n + 1), dtype=int)
    for s in range(num_stages):
        f = min(num_stages - s, num_microbatches)
        for e in range(1, n + 1):
            d = C[e] - C[:e]
            c = np.where(d[:, 1] + f * d[:, 2] <= limit_bytes, np.maximum(best[s, :e], d[:, 0]), np.inf)
            j = c.argmin()
            best[s + 1, e] = c[j]
            frm[s + 1, e] = j
    out = []
    e = n
    for s in range(num_stages, 0, -1):
        out.append(e - frm[s, e])
        e = frm[s, e]
    return out[::-1]


# %% right_recursion
"""Different: from the last stage backwards, remembered."""

import math
from functools import cache


def cut(layers, num_stages, num_microbatches, limit_bytes):
    @cache
    def least(stage, begin):
        if stage == num_stages:
            return (0, ()) if begin == len(layers) else (math.inf, ())
        found, seconds, held = (math.inf, ()), 0, 0
        for end in range(begin + 1, len(layers) - (num_stages - stage - 1) + 1):
            s, p, a = layers[end - 1]
            seconds, held = seconds + s, held + p + min(num_stages - stage, num_microbatches) * a
            if held > limit_bytes:
                break
            behind, sizes = least(stage + 1, end)
            found = min(found, (max(seconds, behind), (end - begin, *sizes)))
        return found

    return list(least(0, 0)[1])


# %% right_tables
"""Different: tables by number of layers, as in the hint."""

import math


def cut(layers, num_stages, num_microbatches, limit_bytes):
    n = len(layers)
    best = [[math.inf] * (n + 1) for _ in range(num_stages + 1)]
    choice = [[0] * (n + 1) for _ in range(num_stages + 1)]
    best[0][0] = 0
    for s in range(1, num_stages + 1):
        in_flight = min(num_stages - s + 1, num_microbatches)
        for k in range(s, n + 1):
            seconds = held = 0
            for j in range(k - 1, s - 2, -1):
                seconds += layers[j][0]
                held += layers[j][1] + in_flight * layers[j][2]
                if held > limit_bytes:
                    break
                if max(best[s - 1][j], seconds) < best[s][k]:
                    best[s][k], choice[s][k] = max(best[s - 1][j], seconds), j
    sizes, k = [], n
    for s in range(num_stages, 0, -1):
        sizes.append(k - choice[s][k])
        k = choice[s][k]
    return sizes[::-1]


# %% all_in_flight
"""Wrong: every stage holds as many as the first."""

import math


def cut(layers, num_stages, num_microbatches, limit_bytes):
    best, came_from = {0: 0}, []
    for stage in range(num_stages):
        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
        for begin, slowest in best.items():
            seconds = held = 0
            for end in range(begin + 1, len(layers) + 1):
                seconds += layers[end - 1][0]
                held += layers[end - 1][1] + in_flight * layers[end - 1][2]
                if held <= limit_bytes and max(slowest, seconds) < now.get(end, math.inf):
                    now[end], begins[end] = max(slowest, seconds), begin
        best = now
        came_from.append(begins)
    sizes, end = [], len(layers)
    for begins in reversed(came_from):
        sizes.insert(0, end - begins[end])
        end = begins[end]
    return sizes


# %% adds_up of="all_in_flight"
"""Wrong: the least sum, which is the same for every cut."""

# -        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
# +        in_flight, now, begins = min(num_stages - stage, num_microbatches), {}, {}

# -                if held <= limit_bytes and max(slowest, seconds) < now.get(end, math.inf):
# -                    now[end], begins[end] = max(slowest, seconds), begin
# +                if held <= limit_bytes and slowest + seconds < now.get(end, math.inf):
# +                    now[end], begins[end] = slowest + seconds, begin

# %% edges_for_sizes of="all_in_flight"
"""Wrong: where stages end, not how many layers they have."""

# -        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
# +        in_flight, now, begins = min(num_stages - stage, num_microbatches), {}, {}

# -        sizes.insert(0, end - begins[end])
# +        sizes.insert(0, end)

# %% fewer_stages of="all_in_flight"
"""Wrong: uses one stage fewer where it can."""

# -    for stage in range(num_stages):
# -        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
# +    for stage in range(max(1, num_stages - 1)):
# +        in_flight, now, begins = min(num_stages - stage, num_microbatches), {}, {}

# %% first_that_fits of="all_in_flight"
"""Wrong: any cut that fits."""

# -import math
# -
# -

# -        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
# +        in_flight, now, begins = min(num_stages - stage, num_microbatches), {}, {}

# -                if held <= limit_bytes and max(slowest, seconds) < now.get(end, math.inf):
# +                if held <= limit_bytes and end not in now:

# %% gpipe of="all_in_flight"
"""Wrong: every microbatch is held."""

# -        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
# +        in_flight, now, begins = num_microbatches, {}, {}

# %% in_flight_reversed of="all_in_flight"
"""Wrong: the last stage holds the most."""

# -        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
# +        in_flight, now, begins = min(stage + 1, num_microbatches), {}, {}

# %% no_cap of="all_in_flight"
"""Wrong: forgets the memory."""

# -        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
# +        in_flight, now, begins = min(num_stages - stage, num_microbatches), {}, {}

# -                if held <= limit_bytes and max(slowest, seconds) < now.get(end, math.inf):
# +                if max(slowest, seconds) < now.get(end, math.inf):

# %% one_in_flight of="all_in_flight"
"""Wrong: every stage holds one microbatch."""

# -        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
# +        in_flight, now, begins = 1, {}, {}

# %% reversed_sizes of="all_in_flight"
"""Wrong: the stages in reverse."""

# -        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
# +        in_flight, now, begins = min(num_stages - stage, num_microbatches), {}, {}

# -    return sizes
# +    return sizes[::-1]

# %% smallest_memory of="all_in_flight"
"""Wrong: the least memory in the place of the least time."""

# -        in_flight, now, begins = min(num_stages, num_microbatches), {}, {}
# +        in_flight, now, begins = min(num_stages - stage, num_microbatches), {}, {}

# -                if held <= limit_bytes and max(slowest, seconds) < now.get(end, math.inf):
# -                    now[end], begins[end] = max(slowest, seconds), begin
# +                if held <= limit_bytes and max(slowest, held) < now.get(end, math.inf):
# +                    now[end], begins[end] = max(slowest, held), begin

# %% equal_layers
"""Wrong: as many layers on every stage."""


def cut(layers, num_stages, num_microbatches, limit_bytes):
    size, rest = divmod(len(layers), num_stages)
    return [size + (stage < rest) for stage in range(num_stages)]


# %% borrows_the_answer of="equal_layers"
"""Wrong: asks the package."""

# -    size, rest = divmod(len(layers), num_stages)
# -    return [size + (stage < rest) for stage in range(num_stages)]
# +    from shardlab.costs.planning.partition import Piece, partition
# +
# +    pieces = [Piece(*map(float, layer)) for layer in layers]
# +    return list(partition(pieces, num_stages, num_microbatches=num_microbatches, limit_bytes=limit_bytes).sizes)

# %% fills_to_the_mean of="equal_layers"
"""Wrong: fills each stage up to the mean."""

# -    size, rest = divmod(len(layers), num_stages)
# -    return [size + (stage < rest) for stage in range(num_stages)]
# +    mean, sizes, place = sum(layer[0] for layer in layers) / num_stages, [], 0
# +    for stage in range(num_stages - 1):
# +        size, seconds = 1, layers[place][0]
# +        while seconds + layers[place + size][0] <= mean and place + size < len(layers) - (num_stages - stage - 1):
# +            seconds += layers[place + size][0]
# +            size += 1
# +        sizes.append(size)
# +        place += size
# +    return [*sizes, len(layers) - place]

# %% tries_every_cut of="equal_layers"
"""Wrong: right, and out of time on 60 layers."""

# +import math
# +from itertools import combinations, pairwise
# +
# +
#  def cut(layers, num_stages, num_microbatches, limit_bytes):
# -    size, rest = divmod(len(layers), num_stages)
# -    return [size + (stage < rest) for stage in range(num_stages)]
# +    best, chosen = math.inf, None
# +    for inner in combinations(range(1, len(layers)), num_stages - 1):
# +        edges = [0, *inner, len(layers)]
# +        stages = [layers[begin:end] for begin, end in pairwise(edges)]
# +        fits = all(
# +            sum(p + min(num_stages - i, num_microbatches) * a for _, p, a in stage) <= limit_bytes
# +            for i, stage in enumerate(stages)
# +        )
# +        slowest = max(sum(layer[0] for layer in stage) for stage in stages)
# +        if fits and slowest < best:
# +            best, chosen = slowest, [len(stage) for stage in stages]
# +    return chosen
