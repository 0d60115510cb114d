"""Different: by what is lost, with math."""

import math


def checkpoint_numbers(gpus, years_between_failures, save_seconds, restart_seconds):
    mean = years_between_failures / gpus * 31_536_000
    root = math.sqrt(save_seconds / 2 / mean)
    young = 2 * mean * root
    daly = young + young * root / 3 + young * root * root / 9 - save_seconds
    shares = []
    for work in (young, 3600.0):
        period = work + save_seconds
        lost = restart_seconds / mean + period / mean / 2
        shares.append((1 - save_seconds / period) * (1 - lost))
    return [mean, young, daly, *shares]
