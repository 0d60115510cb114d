"""Different: exact fractions of the formulas, turned into numbers at the end."""

from fractions import Fraction


def layer_of_530b():
    s, h, a, t = 2048, 20480, 128, 8
    scores = Fraction(5 * a * s, h)
    tp = s * h * (10 + Fraction(24, t) + scores / t)
    selective = s * h * Fraction(34, t)
    extra = Fraction(s, 18 * h) / (1 + Fraction(s, 6 * h))
    return [float(one) for one in (tp, selective, scores / (34 + scores), extra, Fraction(1, 3))]
