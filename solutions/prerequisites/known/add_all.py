# %% right_in_float64
"""Different: a running sum in float64, rounded once."""

import torch


def add_all(parts):
    total = torch.zeros_like(parts[0], dtype=torch.float64)
    for part in parts:
        total += part
    return total.to(torch.bfloat16)


# %% in_bfloat16
"""Wrong: every partial sum is rounded."""


def add_all(parts):
    total = parts[0].clone()
    for part in parts[1:]:
        total = total + part
    return total


# %% rounds_each_time of="in_bfloat16"
"""Wrong: adds in float32, and rounds after each addition."""

# -        total = total + part
# +        total = (total.float() + part.float()).bfloat16()

# %% stays_in_float32 of="in_bfloat16"
"""Wrong: never rounds back to bfloat16."""

# -    total = parts[0].clone()
# +    total = parts[0].float()

# %% mean_for_sum of="in_bfloat16"
"""Wrong: the mean."""

# -    total = parts[0].clone()
# -    for part in parts[1:]:
# -        total = total + part
# -    return total
# +    return (sum(part.float() for part in parts) / len(parts)).bfloat16()

# %% right_page from="page"
"""Different: the page."""
