"""Different: takes the best again and again."""


def step_seconds(model, layout, sequences, gpu):
    tp, pp, dp, b = layout
    work = 6 * model["parameters"] * b * model["sequence"] / gpu["flops"]
    wire = 16 * (tp - 1) * model["layers"] * b * model["sequence"] * model["hidden"] / gpu["nvlink"]
    servers = -(-tp * dp // gpu["per_server"])
    link = gpu["nvlink"] if servers == 1 else min(gpu["nvlink"], gpu["network"] * (gpu["per_server"] // tp))
    data = 6 * model["parameters"] * (1 - 1 / dp) / link
    return ((sequences / dp / b + pp - 1) * (work + wire) + data) / (tp * pp)


def ranked(layouts, model, sequences, gpu):
    left, found = list(layouts), []
    while left:
        found.append(min(left, key=lambda layout: step_seconds(model, layout, sequences, gpu)))
        left.remove(found[-1])
    return found
