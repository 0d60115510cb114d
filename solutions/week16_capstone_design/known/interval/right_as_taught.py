"""Different: as the page solves it."""

from math import exp, expm1


def best_interval(save, between):
    return (2 * save * between) ** 0.5


def goodput(interval, save, between, restart):
    return interval / (between * exp(restart / between) * expm1((interval + save) / between))
