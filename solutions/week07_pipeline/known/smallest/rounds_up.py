"""Wrong: rounds (P-1)(1/b - 1) up, one too few when it is whole."""

import math


def smallest_num_microbatches(num_ranks, percent):
    return max(1, math.ceil((num_ranks - 1) * (100 - percent) / percent))
