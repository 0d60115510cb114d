"""Different: exact fractions, and the last number by trying."""

from fractions import Fraction
from itertools import count


def kv_bill(c, b, s, heads, kv_heads, width):
    numbers = Fraction(b * s * width, c)
    ring = (c - 1) * 2 * 2 * numbers * kv_heads
    ulysses = Fraction(c - 1, c) * 2 * 2 * numbers * (heads + kv_heads)
    least = next(n for n in count(2) if Fraction(heads + kv_heads, n) < kv_heads)
    return float(ring), float(ulysses), least
