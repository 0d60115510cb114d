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
