"""Different: as the page solves it."""


def gpu_bytes(model, layout):
    tp, cp, pp, chunks = (layout[name] for name in ("tp", "cp", "pp", "chunks"))
    states = model["parameters"] / (tp * pp) * (6 + 12 / (layout["dp"] * cp))
    per_byte = model["sequence"] / cp * layout["b"] * model["hidden"] / tp
    in_flight = model["layers"] / pp * min(pp, layout["m"])
    if chunks > 1:
        in_flight = model["layers"] * (1 + (pp - 1) / (pp * chunks))
    kept = 2 * in_flight + 34 if layout["recompute"] else 34 * in_flight
    return states + per_byte * kept


def sent_bytes(model, layout):
    tp, cp, pp, m, again = (layout[name] for name in ("tp", "cp", "pp", "m", "recompute"))
    share, ranks = model["parameters"] / (tp * pp), layout["dp"] * cp
    positions = 2 * layout["b"] * model["sequence"] / cp
    reduced = 2 * (tp - 1) / tp * positions * model["hidden"]
    blocks = (cp - 1) * 2 * positions * model["kv"] / tp
    return {
        "tp": m * model["layers"] / pp * (6 if again else 4) * reduced,
        "cp": m * model["layers"] / pp * (4 if again else 3) * blocks,
        "pp": m * layout["chunks"] * 2 * positions * model["hidden"] / tp if pp > 1 else 0,
        "dp": (ranks - 1) / ranks * 6 * share,
    }
