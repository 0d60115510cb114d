"""Wrong: 2(N-1) payloads, as through one rank."""


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    payload = 2 * microbatch * sequence * hidden
    one = 2 * (tp - 1) * payload
    return [payload, one, 2 * one * layers / pp, payload if pp > 1 else 0, 4 * (dp - 1) / dp * parameters]
