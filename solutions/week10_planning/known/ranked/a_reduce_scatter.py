"""Wrong: half of an all-reduce."""


def step_seconds(model, layout, sequences, gpu):
    tp, pp, dp, b = layout
    m = sequences // (dp * b)
    share = model["parameters"] / (tp * pp)
    work = 6 * share * b * model["sequence"] / gpu["flops"]
    activation = 2 * b * model["sequence"] * model["hidden"]
    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
    cards = gpu["per_server"] // tp * gpu["network"]
    link = gpu["nvlink"] if tp * dp <= gpu["per_server"] else min(gpu["nvlink"], cards)
    gradients = 6 * share * (dp - 1) / dp / link
    return (m + pp - 1) * (work + tensor) + gradients


def ranked(layouts, model, sequences, gpu):
    return sorted(layouts, key=lambda layout: step_seconds(model, layout, sequences, gpu))
