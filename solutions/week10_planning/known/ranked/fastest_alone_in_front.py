"""Wrong: the fastest comes first, the others as they were given."""


def step_seconds(model, layout, sequences, gpu):
    tp, pp, dp, b = layout
    P = model["parameters"] / tp / pp
    m = sequences / dp / b
    near = tp * dp <= gpu["per_server"]
    link = gpu["nvlink"] if near else min(gpu["nvlink"], gpu["network"] * gpu["per_server"] / tp)
    x = 2 * b * model["sequence"] * model["hidden"] * 2 * (1 - 1 / tp) / gpu["nvlink"]
    return (m + pp - 1) * (6 * P * b * model["sequence"] / gpu["flops"] + 4 * model["layers"] / pp * x) + 6 * P * (
        1 - 1 / dp
    ) / link


def ranked(layouts, model, sequences, gpu):
    b = min(layouts, key=lambda one: step_seconds(model, one, sequences, gpu))
    return [b, *[one for one in layouts if one != b]]
