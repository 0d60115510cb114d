# %% right_floats
"""Different: floats in one go."""

import math


def expert_bill(tokens, experts, k, factor):
    n = tokens * k / experts
    sigma = math.sqrt(n * (1 - k / experts))
    rows = math.ceil(factor * tokens * k / experts)
    return rows, sigma / (n * math.sqrt(2 * math.pi)), max(0.0, tokens - rows) / tokens


# %% k_forgotten of="right_floats"
"""Wrong: one choice per token, whatever k."""

# -    n = tokens * k / experts
# +    n = tokens / experts

# -    rows = math.ceil(factor * tokens * k / experts)
# +    rows = math.ceil(factor * tokens / experts)

# %% rounded_down of="right_floats"
"""Wrong: rounds rows down."""

# -    rows = math.ceil(factor * tokens * k / experts)
# +    rows = int(factor * tokens * k / experts)

# %% not_rounded of="right_floats"
"""Wrong: leaves half rows."""

# -    rows = math.ceil(factor * tokens * k / experts)
# +    rows = factor * tokens * k / experts

# %% factor_forgotten of="right_floats"
"""Wrong: the even share."""

# -    rows = math.ceil(factor * tokens * k / experts)
# +    rows = math.ceil(tokens * k / experts)

# %% poisson of="right_floats"
"""Wrong: the variance of a Poisson number: k/E left out."""

# -    sigma = math.sqrt(n * (1 - k / experts))
# +    sigma = math.sqrt(n)

# %% one_expert_in_variance of="right_floats"
"""Wrong: 1 - 1/E for 1 - k/E."""

# -    sigma = math.sqrt(n * (1 - k / experts))
# +    sigma = math.sqrt(n * (1 - 1 / experts))

# %% absolute of="right_floats"
"""Wrong: the rows lost, not their share."""

# -    return rows, sigma / (n * math.sqrt(2 * math.pi)), max(0.0, tokens - rows) / tokens
# +    return rows, sigma / math.sqrt(2 * math.pi), max(0.0, tokens - rows) / tokens

# %% both_sides of="right_floats"
"""Wrong: the mean distance from the mean, above and below."""

# -    return rows, sigma / (n * math.sqrt(2 * math.pi)), max(0.0, tokens - rows) / tokens
# +    return rows, 2 * sigma / (n * math.sqrt(2 * math.pi)), max(0.0, tokens - rows) / tokens

# %% of_all_tokens of="right_floats"
"""Wrong: 1/√(2πT)."""

# -    return rows, sigma / (n * math.sqrt(2 * math.pi)), max(0.0, tokens - rows) / tokens
# +    return rows, 1 / math.sqrt(2 * math.pi * tokens), max(0.0, tokens - rows) / tokens

# %% worst_of_one_expert of="right_floats"
"""Wrong: all want one expert, and k is 1 forever."""

# -    return rows, sigma / (n * math.sqrt(2 * math.pi)), max(0.0, tokens - rows) / tokens
# +    return rows, sigma / (n * math.sqrt(2 * math.pi)), max(0.0, tokens * k - rows) / (tokens * k)

# %% negative of="right_floats"
"""Wrong: a negative share is lost where the capacity is more than all tokens."""

# -    return rows, sigma / (n * math.sqrt(2 * math.pi)), max(0.0, tokens - rows) / tokens
# +    return rows, sigma / (n * math.sqrt(2 * math.pi)), 1 - rows / tokens

# %% worst_at_factor_one of="right_floats"
"""Wrong: what is lost without the factor."""

# -    return rows, sigma / (n * math.sqrt(2 * math.pi)), max(0.0, tokens - rows) / tokens
# +    return rows, sigma / (n * math.sqrt(2 * math.pi)), max(0.0, tokens - math.ceil(n)) / tokens

# %% right_tensors
"""Different: tensors of one number, the lost choices counted."""

import torch


def expert_bill(tokens, experts, k, factor):
    mean = torch.tensor(tokens * k / experts, dtype=torch.float64)
    rows = int(-(-factor * tokens * k // experts))
    spread = (mean * (1 - k / experts)).sqrt()
    above = spread / (2 * torch.pi) ** 0.5
    lost = k * max(0, tokens - rows) / (tokens * k)
    return [rows, (experts * above / (tokens * k)).item(), lost]
