"""Different: for each number of full layers the fewest selective ones, by division."""

from math import ceil, inf


def cheapest_plan(num_layers, s, b, h, a, t, sequence_parallel, cap_bytes):
    unit, outside = s * b * h, t if sequence_parallel else 1
    selective, full = unit * (10 / outside + 24 / t), 2 * unit / outside
    none = selective + 5 * a * s * s * b / t
    best, plan = inf, None
    for num_full in range(num_layers):
        too_much = num_full * full + (num_layers - num_full) * none - cap_bytes
        num_selective = max(0, ceil(too_much / (none - selective)))
        cost = num_full * (6 * h + s) + num_selective * s
        if num_full + num_selective < num_layers and cost < best:
            rest = num_layers - num_full - num_selective
            best, plan = cost, ("full",) * num_full + ("selective",) * num_selective + ("none",) * rest
    return plan
