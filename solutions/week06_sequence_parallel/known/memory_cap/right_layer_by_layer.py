"""Different: a table over layers: for each cost so far, in units of the core, the least that is kept."""


def cheapest_plan(num_layers, s, b, h, a, t, sequence_parallel, cap_bytes):
    around = 10 / t if sequence_parallel else 10
    kept = {"none": around + 24 / t + 5 * a * s / h / t, "selective": around + 24 / t}
    kept["full"] = 2 / t if sequence_parallel else 2
    cost = {"none": 0, "selective": s, "full": 6 * h + s}
    least = {0: (0.0, ())}  # cost -> bytes kept, counts
    for _ in range(num_layers - 1):
        after = {}
        for spent, (held, plan) in least.items():
            for way, size in kept.items():
                found = (held + size, (*plan, way))
                if spent + cost[way] not in after or found[0] < after[spent + cost[way]][0]:
                    after[spent + cost[way]] = found
        least = after
    for _, (held, plan) in sorted(least.items()):
        if (held + kept["none"]) * s * b * h <= cap_bytes:
            return [*plan, "none"]
    return None
