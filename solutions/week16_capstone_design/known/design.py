# %% right_as_taught
"""Different: as the page solves it, with the cells above."""

from itertools import product
from math import exp, expm1


def gpu_bytes(model, layout):
    tp, cp, pp, chunks = (layout[name] for name in ("tp", "cp", "pp", "chunks"))
    states = model["parameters"] / (tp * pp) * (6 + 12 / (layout["dp"] * cp))
    per_byte = model["sequence"] / cp * layout["b"] * model["hidden"] / tp
    in_flight = model["layers"] / pp * min(pp, layout["m"])
    if chunks > 1:
        in_flight = model["layers"] * (1 + (pp - 1) / (pp * chunks))
    return states + per_byte * (2 * in_flight + 34 if layout["recompute"] else 34 * in_flight)


def link(gpu, size, stride, collective):
    if size * stride <= gpu["per_server"]:
        return gpu["nvlink"]
    cards = max(1, gpu["per_server"] // stride) if collective else 1
    return min(gpu["nvlink"], cards * gpu["network"])


def step_seconds(model, layout, gpu):
    tp, cp, pp, m, again = (layout[name] for name in ("tp", "cp", "pp", "m", "recompute"))
    share, ranks = model["parameters"] / (tp * pp), layout["dp"] * cp
    tokens, layers = layout["b"] * model["sequence"] / cp, model["layers"] / pp
    slot = (8 if again else 6) * share * tokens / gpu["flops"]
    slot += layers * (6 if again else 4) * 4 * (tp - 1) / tp * tokens * model["hidden"] / gpu["nvlink"]
    ring, hop = link(gpu, cp, tp, False), link(gpu, pp, tp * ranks, False)
    slot += layers * (4 if again else 3) * (cp - 1) * 4 * tokens * model["kv"] / tp / ring
    if pp > 1:
        slot += layout["chunks"] * 4 * tokens * model["hidden"] / tp / hop
    return (m + (pp - 1) / layout["chunks"]) * slot + (ranks - 1) / ranks * 6 * share / link(gpu, ranks, tp, True)


def document(brief, layout):
    model, gpu = brief["model"], brief["gpu"]
    gpus = layout["tp"] * layout["cp"] * layout["pp"] * layout["dp"]
    per_step = brief["sequences"] * model["sequence"]
    seconds = step_seconds(model, layout, gpu)
    mfu = 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"])
    days = brief["tokens"] / per_step * seconds / 86400
    save, between = 14 * model["parameters"] / brief["storage"], 3600 * gpu["hours"] / gpus
    interval = (2 * save * between) ** 0.5
    share = interval / (between * exp(brief["restart"] / between) * expm1((interval + save) / between))
    hours = 24 * days / share * gpus
    numbers = {"gpu_bytes": gpu_bytes(model, layout), "seconds": seconds, "mfu": mfu, "interval": interval}
    numbers |= {"goodput": share, "days": days / share, "failures": hours / gpu["hours"]}
    return layout | numbers | {"dollars": hours * gpu["dollars"]}


def candidates(brief):
    model, most = brief["model"], brief["gpu"]["per_server"]
    tps = [tp for tp in range(1, most + 1) if most % tp == 0 and model["heads"] % tp == 0]
    pps = [pp for pp in range(1, model["layers"] + 1) if model["layers"] % pp == 0]
    choices = product(brief["clusters"], tps, (1, 2, 4), pps, (1, 2, 4), (1, 2), (False, True))
    for gpus, tp, cp, pp, b, chunks, recompute in choices:
        dp, rest = divmod(gpus, tp * cp * pp)
        if rest or not dp or brief["sequences"] % (dp * b) or model["layers"] % (pp * chunks):
            continue
        m = brief["sequences"] // (dp * b)
        if m and (chunks == 1 or (pp > 1 and m % pp == 0)):
            sizes = {"tp": tp, "cp": cp, "pp": pp, "dp": dp, "b": b, "m": m}
            yield sizes | {"chunks": chunks, "recompute": recompute}


def design(brief):
    found = [document(brief, layout) for layout in candidates(brief)]
    fit = [one for one in found if one["gpu_bytes"] <= brief["gpu"]["memory"] and one["days"] <= brief["days"]]
    return min(fit, key=lambda one: one["dollars"])


# %% the_fastest of="right_as_taught"
"""Wrong: the most GPUs, whatever they cost."""

# -    return min(fit, key=lambda one: one["dollars"])
# +    return min(fit, key=lambda one: one["days"])

# %% the_slowest of="right_as_taught"
"""Wrong: the fewest GPUs that are in time: the most days."""

# -    return min(fit, key=lambda one: one["dollars"])
# +    return max(fit, key=lambda one: one["days"])

# %% the_first of="right_as_taught"
"""Wrong: the first that fits."""

# -    return min(fit, key=lambda one: one["dollars"])
# +    return fit[0]

# %% no_deadline of="right_as_taught"
"""Wrong: forgets the deadline."""

# -    fit = [one for one in found if one["gpu_bytes"] <= brief["gpu"]["memory"] and one["days"] <= brief["days"]]
# +    fit = [one for one in found if one["gpu_bytes"] <= brief["gpu"]["memory"]]

# %% no_limit of="right_as_taught"
"""Wrong: forgets the memory."""

# -    fit = [one for one in found if one["gpu_bytes"] <= brief["gpu"]["memory"] and one["days"] <= brief["days"]]
# +    fit = [one for one in found if one["days"] <= brief["days"]]

# %% best_mfu of="right_as_taught"
"""Wrong: the best MFU, at any cost of memory."""

# -    fit = [one for one in found if one["gpu_bytes"] <= brief["gpu"]["memory"] and one["days"] <= brief["days"]]
# -    return min(fit, key=lambda one: one["dollars"])
# +    return max(found, key=lambda one: one["mfu"])

# %% no_context of="right_as_taught"
"""Wrong: never tries context parallelism."""

# -    choices = product(brief["clusters"], tps, (1, 2, 4), pps, (1, 2, 4), (1, 2), (False, True))
# +    choices = product(brief["clusters"], tps, (1,), pps, (1, 2, 4), (1, 2), (False, True))

# %% rule_of_thumb of="right_as_taught"
"""Wrong: tp 8, as everybody says."""

# -    tps = [tp for tp in range(1, most + 1) if most % tp == 0 and model["heads"] % tp == 0]
# +    tps = [8]

# %% always_recomputed of="right_as_taught"
"""Wrong: recomputes, to be safe."""

# -    choices = product(brief["clusters"], tps, (1, 2, 4), pps, (1, 2, 4), (1, 2), (False, True))
# +    choices = product(brief["clusters"], tps, (1, 2, 4), pps, (1, 2, 4), (1, 2), (True,))

# %% a_cluster_of_its_own of="right_as_taught"
"""Wrong: rents as many GPUs as it likes."""

# -    choices = product(brief["clusters"], tps, (1, 2, 4), pps, (1, 2, 4), (1, 2), (False, True))
# +    choices = product([384], tps, (1, 2, 4), pps, (1, 2, 4), (1, 2), (False, True))

# %% large_microbatches of="right_as_taught"
"""Wrong: b of 8, which nobody allowed."""

# -    choices = product(brief["clusters"], tps, (1, 2, 4), pps, (1, 2, 4), (1, 2), (False, True))
# +    choices = product(brief["clusters"], tps, (1, 2, 4), pps, (8,), (1, 2), (False, True))

# %% nothing_fails of="right_as_taught"
"""Wrong: a goodput of 1."""

# -    share = interval / (between * exp(brief["restart"] / between) * expm1((interval + save) / between))
# +    share = 1.0

# %% free_restarts of="right_as_taught"
"""Wrong: a restart takes no time."""

# -    share = interval / (between * exp(brief["restart"] / between) * expm1((interval + save) / between))
# +    share = interval / (between * expm1((interval + save) / between))

# %% failures_without_goodput of="right_as_taught"
"""Wrong: counts failures in the days of work alone."""

# -    numbers |= {"goodput": share, "days": days / share, "failures": hours / gpu["hours"]}
# +    numbers |= {"goodput": share, "days": days / share, "failures": 24 * days * gpus / gpu["hours"]}

# %% paid_for_work_alone of="right_as_taught"
"""Wrong: failures cost nothing."""

# -    return layout | numbers | {"dollars": hours * gpu["dollars"]}
# +    return layout | numbers | {"dollars": 24 * days * gpus * gpu["dollars"]}

# %% sixteen_bytes_kept of="right_as_taught"
"""Wrong: writes gradients, too."""

# -    save, between = 14 * model["parameters"] / brief["storage"], 3600 * gpu["hours"] / gpus
# +    save, between = 16 * model["parameters"] / brief["storage"], 3600 * gpu["hours"] / gpus

# %% one_gpu_fails of="right_as_taught"
"""Wrong: the hours of one GPU for those of all."""

# -    save, between = 14 * model["parameters"] / brief["storage"], 3600 * gpu["hours"] / gpus
# +    save, between = 14 * model["parameters"] / brief["storage"], 3600 * gpu["hours"]

# %% mfu_of_what_is_reached of="right_as_taught"
"""Wrong: over the FLOP/s that are reached."""

# -    mfu = 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"])
# +    mfu = 6 * model["parameters"] * per_step / (seconds * gpus * gpu["flops"])

# %% layout_alone of="right_as_taught"
"""Wrong: no numbers."""

# -    return min(fit, key=lambda one: one["dollars"])
# +    best = min(fit, key=lambda one: one["dollars"])
# +    return {name: best[name] for name in ("tp", "cp", "pp", "dp", "b", "m", "chunks", "recompute")}

# %% days_alone of="right_as_taught"
"""Wrong: a number, no document."""

# -    return min(fit, key=lambda one: one["dollars"])
# +    return min(one["days"] for one in fit)

# %% by_heart of="right_as_taught"
"""Wrong: the layout of the page's brief, with right numbers."""

# -    found = [document(brief, layout) for layout in candidates(brief)]
# -    fit = [one for one in found if one["gpu_bytes"] <= brief["gpu"]["memory"] and one["days"] <= brief["days"]]
# -    return min(fit, key=lambda one: one["dollars"])
# +    layout = {"tp": 2, "cp": 4, "pp": 8, "dp": 8, "b": 1, "chunks": 2, "recompute": False}
# +    return document(brief, layout | {"m": brief["sequences"] // 8})

# %% right_loops
"""Different: nested loops that keep the best so far, sizes as a tuple, no recomputation where it is not needed."""

import math


def held(model, tp, cp, pp, dp, b, m, chunks, recompute):
    own = model["parameters"] / tp / pp
    unit = b * model["sequence"] * model["hidden"] / cp / tp
    layers = model["layers"] * min(pp, m) / pp if chunks == 1 else model["layers"] * (1 + (pp - 1) / pp / chunks)
    return own * 6 + own * 12 / dp / cp + unit * (layers * 2 + 34 if recompute else layers * 34)


def seconds_of(model, gpu, tp, cp, pp, dp, b, m, chunks, recompute):
    own, width, layers = model["parameters"] / tp / pp, 2 * model["hidden"], model["layers"] / pp
    positions = b * model["sequence"] / cp
    work = own * positions * (8 if recompute else 6) / gpu["flops"]
    tensor = layers * (6 if recompute else 4) * (2 - 2 / tp) * positions * width / gpu["nvlink"]
    fast = tp * cp <= gpu["per_server"]
    keys = layers * (4 if recompute else 3) * (cp - 1) * 4 * positions * model["kv"] / tp
    context = keys / (gpu["nvlink"] if fast else gpu["network"])
    hop = (chunks * 2 * positions * width / tp / gpu["network"]) if pp > 1 else 0  # a cluster has many servers
    cards = gpu["network"] * gpu["per_server"] / tp
    fast = tp * cp * dp <= gpu["per_server"]
    last = own * 6 * (1 - 1 / (dp * cp)) / (gpu["nvlink"] if fast else min(cards, gpu["nvlink"]))
    return (m + (pp - 1) / chunks) * (work + tensor + context + hop) + last


def sizes_of(brief):
    model, per_server = brief["model"], brief["gpu"]["per_server"]
    for gpus in sorted(brief["clusters"]):
        for tp in [t for t in (1, 2, 4, 8, 16) if per_server % t == 0 and model["heads"] % t == 0]:
            for cp in (1, 2, 4):
                for pp in range(1, model["layers"] + 1):
                    if model["layers"] % pp or gpus % (tp * cp * pp):
                        continue
                    dp = gpus // (tp * cp * pp)
                    for b in (1, 2, 4):
                        m = brief["sequences"] // (dp * b)
                        if m * dp * b != brief["sequences"] or m == 0:
                            continue
                        for recompute in (False, True):
                            yield tp, cp, pp, dp, b, m, 1, recompute
                            if pp > 1 and m % pp == 0 and model["layers"] % (2 * pp) == 0:
                                yield tp, cp, pp, dp, b, m, 2, recompute


def design(brief):
    model, gpu, best = brief["model"], brief["gpu"], None
    save = 14 * model["parameters"] / brief["storage"]
    for sizes in sizes_of(brief):
        memory = held(model, *sizes)
        if memory > gpu["memory"]:
            continue
        gpus = math.prod(sizes[:4])
        seconds = seconds_of(model, gpu, *sizes)
        between = gpu["hours"] * 3600 / gpus
        interval = math.sqrt(2 * save * between)
        stretched = between * math.exp(brief["restart"] / between) * (math.exp((interval + save) / between) - 1)
        goodput = interval / stretched
        batch = brief["sequences"] * model["sequence"]
        days = brief["tokens"] / batch * seconds / goodput / 86400
        dollars = days * 24 * gpus * gpu["dollars"]
        if days > brief["days"] or (best and dollars >= best["dollars"]):
            continue
        names = ("tp", "cp", "pp", "dp", "b", "m", "chunks", "recompute")
        best = dict(zip(names, sizes, strict=True)) | {
            "gpu_bytes": memory,
            "seconds": seconds,
            "mfu": 6 * model["parameters"] * batch / seconds / gpus / gpu["peak"],
            "interval": interval,
            "goodput": goodput,
            "days": days,
            "failures": days * 86400 / between,
            "dollars": dollars,
        }
    return best
