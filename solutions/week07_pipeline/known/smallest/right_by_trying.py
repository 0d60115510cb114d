"""Different: tries one number after the other with exact fractions."""

from fractions import Fraction


def smallest_num_microbatches(num_ranks, percent):
    num_microbatches = 1
    while Fraction(num_ranks - 1, num_microbatches + num_ranks - 1) >= Fraction(percent, 100):
        num_microbatches += 1
    return num_microbatches
