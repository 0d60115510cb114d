"""Different: as the page solves it, with bytes of its own."""


def sent_bytes(model, layout):
    tp, cp, pp, m, again = (layout[name] for name in ("tp", "cp", "pp", "m", "recompute"))
    share, ranks = model["parameters"] / (tp * pp), layout["dp"] * cp
    positions = 2 * layout["b"] * model["sequence"] / cp
    return {
        "tp": m * model["layers"] / pp * (6 if again else 4) * 2 * (tp - 1) / tp * positions * model["hidden"],
        "cp": m * model["layers"] / pp * (4 if again else 3) * (cp - 1) * 2 * positions * model["kv"] / tp,
        "pp": m * layout["chunks"] * 2 * positions * model["hidden"] / tp if pp > 1 else 0,
        "dp": (ranks - 1) / ranks * 6 * share,
    }


def link(gpu, size, stride, collective):
    if size * stride <= gpu["per_server"]:
        return gpu["nvlink"]
    cards = max(1, gpu["per_server"] // stride) if collective else 1
    return min(gpu["nvlink"], cards * gpu["network"])


def step_seconds(model, layout, gpu):
    sent, m = sent_bytes(model, layout), layout["m"]
    tokens = layout["b"] * model["sequence"] / layout["cp"]
    share = model["parameters"] / (layout["tp"] * layout["pp"])
    ring = link(gpu, layout["cp"], layout["tp"], False)
    hop = link(gpu, layout["pp"], layout["tp"] * layout["cp"] * layout["dp"], False)
    copies = link(gpu, layout["dp"] * layout["cp"], layout["tp"], True)
    slot = (8 if layout["recompute"] else 6) * share * tokens / gpu["flops"]
    slot += (sent["tp"] / gpu["nvlink"] + sent["cp"] / ring + sent["pp"] / hop) / m
    return (m + (layout["pp"] - 1) / layout["chunks"]) * slot + sent["dp"] / copies


def bill(model, layout, gpu, tokens):
    gpus = layout["tp"] * layout["cp"] * layout["pp"] * layout["dp"]
    per_step = layout["b"] * layout["m"] * layout["dp"] * model["sequence"]
    seconds = step_seconds(model, layout, gpu)
    days = tokens / per_step * seconds / 86400
    return 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"]), days, 24 * days * gpus * gpu["dollars"]
