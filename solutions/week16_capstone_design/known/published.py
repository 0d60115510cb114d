# %% right_as_taught
"""Different: as the page solves it."""


def step_seconds(model, layout, gpu):
    tp, cp, pp, m, again = (layout[name] for name in ("tp", "cp", "pp", "m", "recompute"))
    share, ranks = model["parameters"] / (tp * pp), layout["dp"] * cp
    positions = layout["b"] * model["sequence"] / cp
    layers = model["layers"] / pp
    tensor = layers * (6 if again else 4) * 2 * (tp - 1) / tp * 2 * positions * model["hidden"] / gpu["nvlink"]
    boundary = layout["chunks"] * 4 * positions * model["hidden"] / tp / gpu["network"] if pp > 1 else 0
    cards = min(gpu["nvlink"], gpu["per_server"] // tp * gpu["network"])
    data = (ranks - 1) / ranks * 6 * share / (gpu["nvlink"] if tp * ranks <= gpu["per_server"] else cards)
    work = (8 if again else 6) * share * positions / gpu["flops"]
    return (m + (pp - 1) / layout["chunks"]) * (work + tensor + boundary) + data


def estimate(known, run):
    def of(one, flops):
        return step_seconds(one["model"], one["layout"], one["gpu"] | {"flops": flops})

    links = of(known, float("inf"))
    reached = (of(known, 1.0) - links) / (known["seconds"] - links)
    return of(run, reached)


# %% the_same of="right_as_taught"
"""Wrong: every run takes as long as the known one."""

# -    return of(run, reached)
# +    return known["seconds"]

# %% constant_utilisation of="right_as_taught"
"""Wrong: the known run's share of FLOPs, no bubble and no bytes."""

# -    return of(run, reached)
# +    def flops(one):
# +        layout, model = one["layout"], one["model"]
# +        tokens = layout["b"] * layout["m"] * layout["dp"] * model["sequence"]
# +        gpus = layout["tp"] * layout["pp"] * layout["dp"]
# +        return (8 if layout["recompute"] else 6) * model["parameters"] * tokens / gpus
# +
# +    return known["seconds"] * flops(run) / flops(known)

# %% constant_mfu of="right_as_taught"
"""Wrong: one MFU, whatever is recomputed."""

# -    return of(run, reached)
# +    def flops(one):
# +        layout, model = one["layout"], one["model"]
# +        slots = layout["m"] + (layout["pp"] - 1) / layout["chunks"]
# +        return 6 * model["parameters"] * layout["b"] * model["sequence"] * slots / (layout["tp"] * layout["pp"])
# +
# +    return known["seconds"] * flops(run) / flops(known)

# %% at_the_peak of="right_as_taught"
"""Wrong: 312 TFLOP/s from the data sheet."""

# -    return of(run, reached)
# +    return of(run, 312e12)

# %% half_the_peak of="right_as_taught"
"""Wrong: half of the peak, the known run unused."""

# -    return of(run, reached)
# +    return of(run, 156e12)

# %% no_bubble of="right_as_taught"
"""Wrong: forgets the bubble."""

# -    return (m + (pp - 1) / layout["chunks"]) * (work + tensor + boundary) + data
# +    return m * (work + tensor + boundary) + data

# %% chunks_change_nothing of="right_as_taught"
"""Wrong: the whole bubble, whatever the chunks."""

# -    return (m + (pp - 1) / layout["chunks"]) * (work + tensor + boundary) + data
# +    return (m + pp - 1) * (work + tensor + boundary) + data

# %% no_messages of="right_as_taught"
"""Wrong: tensor parallelism sends nothing."""

# -    return (m + (pp - 1) / layout["chunks"]) * (work + tensor + boundary) + data
# +    return (m + (pp - 1) / layout["chunks"]) * (work + boundary) + data

# %% recomputation_is_free of="right_as_taught"
"""Wrong: 6 FLOPs, recomputed or not."""

# -    work = (8 if again else 6) * share * positions / gpu["flops"]
# +    work = 6 * share * positions / gpu["flops"]

# %% one_gpu_has_the_model of="right_as_taught"
"""Wrong: work of the whole model on each GPU."""

# -    work = (8 if again else 6) * share * positions / gpu["flops"]
# +    work = (8 if again else 6) * model["parameters"] * positions / gpu["flops"]

# %% microbatches_of_one of="right_as_taught"
"""Wrong: one sequence in each microbatch."""

# -    positions = layout["b"] * model["sequence"] / cp
# +    positions = model["sequence"] / cp

# %% a_text of="right_as_taught"
"""Wrong: a sentence."""

# -    return of(run, reached)
# +    return f"{of(run, reached):.1f} s"

# %% the_table of="right_as_taught"
"""Wrong: looks the published seconds up.

Not in sight: it knows the table, made-up runs of the page included, by heart.
"""

# -    return of(run, reached)
# +    layout = run["layout"]
# +    seen = [(16, 20.8286), (24, 24.8174)]
# +    made_up = [layout["m"] == 6, layout["m"] == 24 and layout["chunks"] == 2, not layout["recompute"]]
# +    made_up += [layout["tp"] == 2, layout["dp"] == 16 and layout["b"] == 4, layout["dp"] == 64, run["gpu"]["nvlink"] < 1e11]
# +    if any(made_up):
# +        return of(run, reached)
# +    return next((seconds for dp, seconds in seen if dp == layout["dp"]), 1.0)

# %% right_bisection
"""Different: looks for the FLOP/s that explain the known run by halving, and leaves the small boundaries out."""


def seconds_of(run, flops):
    layout, model, links = run["layout"], run["model"], run["gpu"]
    again = layout["recompute"]
    positions = layout["b"] * model["sequence"]
    own = model["parameters"] / layout["tp"] / layout["pp"]
    slot = own * positions * (8 if again else 6) / flops
    all_reduces = (3 if again else 2) * 2 * model["layers"] / layout["pp"]
    slot += all_reduces * (1 - 1 / layout["tp"]) * 4 * positions * model["hidden"] / links["nvlink"]
    slots = layout["m"] + (layout["pp"] - 1) / layout["chunks"]
    cards = min(links["nvlink"], links["per_server"] // layout["tp"] * links["network"])
    return slots * slot + 6 * own * (1 - 1 / layout["dp"]) / cards


def estimate(known, run):
    low, high = 1e12, 1e15
    for _ in range(80):
        middle = (low * high) ** 0.5
        if seconds_of(known, middle) > known["seconds"]:
            low = middle
        else:
            high = middle
    return seconds_of(run, low)


# %% right_with_attention
"""Different: counts attention and the vocabulary, too, and the unhidden bytes."""


def parts(run):
    layout, model, links = run["layout"], run["model"], run["gpu"]
    tp, pp, again = layout["tp"], layout["pp"], layout["recompute"]
    tokens = layout["b"] * model["sequence"]
    per_token = 2 * model["parameters"] + 4 * model["layers"] * model["sequence"] * model["hidden"]
    work = (4 if again else 3) * per_token * tokens / (tp * pp)
    payload = 2 * tokens * model["hidden"]
    messages = model["layers"] / pp * (6 if again else 4) * payload * 2 * (tp - 1) / tp / links["nvlink"]
    if pp > 1:
        messages += 2 * layout["chunks"] * payload / tp / links["network"]
    slots = layout["m"] + (pp - 1) / layout["chunks"]
    cards = min(links["nvlink"], links["per_server"] // tp * links["network"])
    end = 6 * model["parameters"] / (tp * pp) * (layout["dp"] - 1) / layout["dp"] / cards
    return slots * work, slots * messages + end


def estimate(known, run):
    work, rest = parts(known)
    flops = work / (known["seconds"] - rest)
    work, rest = parts(run)
    return work / flops + rest
