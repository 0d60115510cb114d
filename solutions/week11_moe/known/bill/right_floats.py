"""Different: floats in one go."""

import math


def expert_bill(tokens, experts, k, factor):
    n = tokens * k / experts
    sigma = math.sqrt(n * (1 - k / experts))
    rows = math.ceil(factor * tokens * k / experts)
    return rows, sigma / (n * math.sqrt(2 * math.pi)), max(0.0, tokens - rows) / tokens
