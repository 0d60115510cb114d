"""Different: exact, by math.comb and fractions."""

from fractions import Fraction
from math import comb


def exchange_bill(tokens, k, hidden, ep, experts, nodes, allowed):
    rows = tokens * k
    sent = Fraction(rows * (ep - 1), ep) * hidden * 2
    found = []
    for count in (nodes, allowed):
        reach = experts // nodes * count
        found.append(float(count - count * Fraction(comb(reach - experts // nodes, k), comb(reach, k))))
    return [float(sent), float(sent * 4), *found]
