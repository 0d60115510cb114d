"""Different: adds microbatch after microbatch, and sorts pairs."""


def step_seconds(model, layout, sequences, gpu):
    tp, pp, dp, b = layout
    tokens = b * model["sequence"]
    slot = 6 * tokens * model["parameters"] / tp / pp / gpu["flops"]
    for _ in range(model["layers"] // pp):
        for _ in range(4):
            slot += 2 * (tp - 1) / tp * (2 * tokens * model["hidden"]) / gpu["nvlink"]
    seconds = sum(slot for _ in range(sequences // dp // b + pp - 1))
    members = len(range(0, gpu["per_server"], tp))  # data-parallel ranks on the first server
    speed = gpu["nvlink"] if dp <= members else min(gpu["nvlink"], sum(gpu["network"] for _ in range(members)))
    for num_bytes in (4, 2):  # gradients go round, weights come back
        seconds += num_bytes * model["parameters"] / tp / pp * (dp - 1) / dp / speed
    return seconds


def ranked(layouts, model, sequences, gpu):
    pairs = [(step_seconds(model, layout, sequences, gpu), place) for place, layout in enumerate(layouts)]
    return [layouts[place] for _, place in sorted(pairs)]
