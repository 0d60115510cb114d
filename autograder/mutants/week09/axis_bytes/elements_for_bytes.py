"""Wrong: counts numbers, not bytes."""


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    payload = microbatch * sequence * hidden
    one = 2 * (tp - 1) / tp * payload
    return [payload, one, 2 * one * layers / pp, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
