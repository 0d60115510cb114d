"""Different: exact fractions, rounded at the end."""

from fractions import Fraction


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    each = 6 + Fraction(12, dp)
    return float(gpu_bytes - Fraction(num_parameters, tp * pp) * each - activation_bytes)
