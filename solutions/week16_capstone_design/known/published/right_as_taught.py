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
