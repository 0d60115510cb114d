"""Different: exact fractions, turned into numbers at the end."""

from fractions import Fraction


def bubble_and_speedup(num_ranks, num_microbatches):
    idle = Fraction(num_ranks - 1, num_microbatches + num_ranks - 1)
    return float(idle), float(num_ranks * (1 - idle))
