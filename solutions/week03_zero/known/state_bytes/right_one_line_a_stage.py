"""Different: one formula a stage, in whole fractions."""

from fractions import Fraction


def state_bytes(num_parameters, num_ranks):
    share = Fraction(1, num_ranks)
    each = [16, 4 + 12 * share, 2 + 14 * share, 16 * share]
    return [float(size * Fraction(num_parameters)) for size in each]
