"""Different: exact fractions, halves of an all-reduce counted one by one."""

from fractions import Fraction


def ring_phase(ranks, num_bytes):
    return Fraction(num_bytes) * (ranks - 1) / ranks


def five_axis_bill(tp, cp, ep, dp, pp, layers, hidden, kv, tokens, k, dense, experts):
    stage = Fraction(layers, pp)
    activation = 2 * tokens * hidden
    tp_bytes = sum(ring_phase(tp, activation) for _ in range(4)) * stage
    cp_bytes = stage * sum(2 * (2 * tokens * Fraction(kv, tp)) for _ in range(cp - 1))
    ep_bytes = stage * 2 * ring_phase(ep, Fraction(activation * k, tp))
    replicas, twins = cp * dp, cp * dp // ep
    weights = 2 * ring_phase(replicas, Fraction(2 * dense, tp * pp))
    weights += 2 * ring_phase(twins, Fraction(2 * experts, tp * pp * ep))
    return [replicas, twins, *map(float, (tp_bytes, cp_bytes, ep_bytes, weights))]
