"""Different: as the page solves it."""

from math import exp


def interruptions(num_gpus, hours_of_one, days):
    hours = hours_of_one / num_gpus
    return hours, 24 * days / hours, exp(-24 / hours)
