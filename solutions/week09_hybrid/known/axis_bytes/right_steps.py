"""Different: one line a number."""


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    def ring(ranks, num_bytes):
        return 2 * (ranks - 1) / ranks * num_bytes

    payload = 2 * microbatch * sequence * hidden
    forward = layers // pp * 2 * ring(tp, payload)
    return payload, ring(tp, payload), forward, payload if pp > 1 else 0, ring(dp, 2 * parameters)
