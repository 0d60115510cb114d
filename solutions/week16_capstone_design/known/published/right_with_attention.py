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
