"""Wrong: a boundary is a message, not a ring."""


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    payload = 2 * microbatch * sequence * hidden
    one = 2 * (tp - 1) / tp * payload
    return [payload, one, 2 * one * layers / pp, (pp - 1) / pp * payload, 4 * (dp - 1) / dp * parameters]
