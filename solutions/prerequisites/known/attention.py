# %% right_by_matmul
"""Different: transposes and matrix products instead of einsum."""

import math


def attention(q, k, v):
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return (weights @ v).transpose(1, 2)


# %% unscaled
"""Wrong: does not divide by the square root of the width."""

import torch


def attention(q, k, v):
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
    weights = scores.softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v)


# %% divides_by_the_width of="unscaled"
"""Wrong: divides by the width, and not by its square root."""

# -    weights = scores.softmax(-1)
# +    weights = (scores / q.shape[-1]).softmax(-1)

# %% softmax_over_queries of="unscaled"
"""Wrong: normalizes over the queries."""

# -    weights = scores.softmax(-1)
# +    weights = (scores / q.shape[-1] ** 0.5).softmax(-2)

# %% heads_first of="unscaled"
"""Wrong: right numbers, returned as [batch, heads, queries, width]."""

# -    weights = scores.softmax(-1)
# -    return torch.einsum("bhqk,bkhd->bqhd", weights, v)
# +    weights = (scores / q.shape[-1] ** 0.5).softmax(-1)
# +    return torch.einsum("bhqk,bkhd->bhqd", weights, v)

# %% right_page from="page"
"""Different: the page."""
