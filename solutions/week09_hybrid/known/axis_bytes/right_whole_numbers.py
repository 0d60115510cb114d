"""Different: multiplies before it divides, as a list."""


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    payload = microbatch * sequence * hidden * 2
    one = payload * 2 * (tp - 1) / tp
    return [payload, one, one * 2 * layers / pp, payload * (pp != 1), parameters * 4 * (dp - 1) / dp]
