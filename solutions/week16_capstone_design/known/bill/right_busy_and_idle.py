"""Different: a stage's busy seconds, then what it waits for the others; whole steps; seconds of each axis."""

import math


def step_seconds(model, layout, gpu):
    b, m, tp, cp, pp, dp = (layout[name] for name in ("b", "m", "tp", "cp", "pp", "dp"))
    chunks, again = layout["chunks"], 1 if layout["recompute"] else 0
    own = model["parameters"] / tp / pp
    positions, layers = b * model["sequence"] / cp, model["layers"] / pp
    compute = (2 + 4 + 2 * again) * own * positions / gpu["flops"]
    tensor = layers * (4 + 2 * again) * (2 - 2 / tp) * 2 * positions * model["hidden"] / gpu["nvlink"]
    here, card, whole = gpu["per_server"], min(gpu["network"], gpu["nvlink"]), tp * cp * dp * pp
    near = {"cp": tp * cp <= here, "pp": whole <= here, "dp": whole // pp <= here}
    context = (
        layers * (3 + again) * (cp - 1) * 4 * positions * model["kv"] / tp / (gpu["nvlink"] if near["cp"] else card)
    )
    hop = (pp != 1) * 4 * chunks * positions * model["hidden"] / tp / (gpu["nvlink"] if near["pp"] else card)
    microbatch = compute + tensor + context + hop
    bubble = (pp - 1) * microbatch / chunks
    same = dp * cp
    cards = min(gpu["nvlink"], sum(gpu["network"] for _ in range(max(1, here // tp))))
    gradients = (4 + 2) * own * (1 - 1 / same) / (gpu["nvlink"] if near["dp"] else cards)
    return m * microbatch + bubble + gradients


def bill(model, layout, gpu, tokens):
    seconds = step_seconds(model, layout, gpu)
    batch = layout["b"] * layout["m"] * layout["dp"] * model["sequence"]
    gpus = math.prod(layout[axis] for axis in ("tp", "cp", "pp", "dp"))
    steps = math.ceil(tokens / batch)
    hours = steps * seconds / 3600
    reached = 6 * model["parameters"] * batch / seconds / gpus
    return [reached / gpu["peak"], hours / 24, hours * gpus * gpu["dollars"]]
