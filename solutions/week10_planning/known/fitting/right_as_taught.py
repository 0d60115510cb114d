"""Different: as the page solves it."""


def rank_bytes(model, layout, sequences):
    tp, pp, dp, b = layout
    states = model["parameters"] / (tp * pp) * (2 + 4 + 12 / dp)
    in_flight = min(pp, sequences // (dp * b)) * model["layers"] / pp
    return states + in_flight * 34 * model["sequence"] * b * model["hidden"] / tp


def fitting(layouts, model, sequences, limit_bytes):
    return [layout for layout in layouts if rank_bytes(model, layout, sequences) <= limit_bytes]
