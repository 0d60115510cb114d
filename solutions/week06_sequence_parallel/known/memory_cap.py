# %% right_layer_by_layer
"""Different: a table over layers: for each cost so far, in units of the core, the least that is kept."""


def cheapest_plan(num_layers, s, b, h, a, t, sequence_parallel, cap_bytes):
    around = 10 / t if sequence_parallel else 10
    kept = {"none": around + 24 / t + 5 * a * s / h / t, "selective": around + 24 / t}
    kept["full"] = 2 / t if sequence_parallel else 2
    cost = {"none": 0, "selective": s, "full": 6 * h + s}
    least = {0: (0.0, ())}  # cost -> bytes kept, counts
    for _ in range(num_layers - 1):
        after = {}
        for spent, (held, plan) in least.items():
            for way, size in kept.items():
                found = (held + size, (*plan, way))
                if spent + cost[way] not in after or found[0] < after[spent + cost[way]][0]:
                    after[spent + cost[way]] = found
        least = after
    for _, (held, plan) in sorted(least.items()):
        if (held + kept["none"]) * s * b * h <= cap_bytes:
            return [*plan, "none"]
    return None


# %% one_more_to_be_sure of="right_layer_by_layer"
"""Wrong: recomputes the last layer as well: it fits, for nothing."""

# -            return [*plan, "none"]
# +            return [*plan, "selective" if "selective" in plan else "none"]

# %% never_selective of="right_layer_by_layer"
"""Wrong: full or nothing."""

# -            for way, size in kept.items():
# +            for way, size in (("none", kept["none"]), ("full", kept["full"])):

# %% input_whole of="right_layer_by_layer"
"""Wrong: with sequence parallelism a full layer still keeps the whole input."""

# -    kept["full"] = 2 / t if sequence_parallel else 2
# +    kept["full"] = 2

# %% always_split of="right_layer_by_layer"
"""Wrong: takes sequence parallelism as always on."""

# -    around = 10 / t if sequence_parallel else 10
# +    around = 10 / t

# %% cost_of_full_is_cheap of="right_layer_by_layer"
"""Wrong: takes the cost of a full layer as that of a selective one."""

# -    cost = {"none": 0, "selective": s, "full": 6 * h + s}
# +    cost = {"none": 0, "selective": s, "full": s + 1}

# %% a_plan_where_none_fits of="right_layer_by_layer"
"""Wrong: returns the smallest plan although nothing fits."""

# -    return None
# +    return ["full"] * (num_layers - 1) + ["none"]

# %% texts_of_its_own of="right_layer_by_layer"
"""Wrong: other words for the three ways."""

# -            return [*plan, "none"]
# +            return [way.upper() for way in [*plan, "none"]]

# %% right_trims
"""Different: for each number of full layers the fewest selective ones, by division."""

from math import ceil, inf


def cheapest_plan(num_layers, s, b, h, a, t, sequence_parallel, cap_bytes):
    unit, outside = s * b * h, t if sequence_parallel else 1
    selective, full = unit * (10 / outside + 24 / t), 2 * unit / outside
    none = selective + 5 * a * s * s * b / t
    best, plan = inf, None
    for num_full in range(num_layers):
        too_much = num_full * full + (num_layers - num_full) * none - cap_bytes
        num_selective = max(0, ceil(too_much / (none - selective)))
        cost = num_full * (6 * h + s) + num_selective * s
        if num_full + num_selective < num_layers and cost < best:
            rest = num_layers - num_full - num_selective
            best, plan = cost, ("full",) * num_full + ("selective",) * num_selective + ("none",) * rest
    return plan


# %% every_layer_alike of="right_trims"
"""Wrong: all layers the same way."""

#      best, plan = inf, None
# +    for way, kept in (("none", none), ("selective", selective), ("full", full)):
# +        if (num_layers - 1) * kept + none <= cap_bytes:
# +            return [way] * num_layers
# +    return None

# %% the_last_layer_too of="right_trims"
"""Wrong: counts what is kept after the forward, as if the last layer's backward needed nothing."""

# -    for num_full in range(num_layers):
# +    for num_full in range(num_layers + 1):

# -        if num_full + num_selective < num_layers and cost < best:
# +        if num_full + num_selective <= num_layers and cost < best:

# %% recomputes_the_last of="right_trims"
"""Wrong: puts what is recomputed behind what is kept."""

# -            best, plan = cost, ("full",) * num_full + ("selective",) * num_selective + ("none",) * rest
# +            best, plan = cost, ("none",) * rest + ("selective",) * num_selective + ("full",) * num_full

# %% never_full of="right_trims"
"""Wrong: selective or nothing."""

# -    for num_full in range(num_layers):
# +    for num_full in range(1):

# %% all_selective_before_full of="right_trims"
"""Wrong: once one layer is full, all others are selective."""

#          num_selective = max(0, ceil(too_much / (none - selective)))
# +        num_selective = num_layers - 1 - num_full if 0 < num_selective < num_layers - num_full and num_full else num_selective

# %% selective_as_long_as_it_can of="right_trims"
"""Wrong: a full layer only when selective ones do not do; where s > 6h one full costs less than two selective."""

# -        if num_full + num_selective < num_layers and cost < best:
# +        if num_full + num_selective < num_layers and plan is None:

# %% never_split of="right_trims"
"""Wrong: takes sequence parallelism as always off."""

# -    unit, outside = s * b * h, t if sequence_parallel else 1
# +    unit, outside = s * b * h, 1
