"""Different: attempts until one succeeds; each failure costs what was done, and restarts until one succeeds."""

import math


def best_interval(save, between):
    return math.sqrt(2.0) * math.sqrt(save) * math.sqrt(between)


def goodput(interval, save, between, restart):
    succeeds = math.exp(-(interval + save) / between)
    failures = (1 - succeeds) / succeeds
    restarted = between * (math.exp(restart / between) - 1)
    needed = failures * (between + restarted)
    return interval / needed
