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
