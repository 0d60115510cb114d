"""Different: adds logarithms."""

import math


def best_interval(save, between):
    return math.exp((math.log(2) + math.log(save) + math.log(between)) / 2)


def goodput(interval, save, between, restart):
    whole = (interval + save) / between
    logarithm = math.log(interval) - math.log(between) - restart / between - math.log(math.exp(whole) - 1)
    return math.exp(logarithm)
