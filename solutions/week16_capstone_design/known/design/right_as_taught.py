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
