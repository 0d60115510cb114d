"""Wrong: a rank has a p-th of the layers."""


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    payload = 2 * microbatch * sequence * hidden
    one = 2 * (tp - 1) / tp * payload
    return [payload, one, 2 * one * layers, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
