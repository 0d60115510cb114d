"""Different: failures an hour first, and a power for the quiet day."""

import math


def interruptions(num_gpus, hours_of_one, days):
    per_hour = num_gpus / hours_of_one
    return [1 / per_hour, days * 24 * per_hour, math.e ** (-24 * per_hour)]
