"""Different: tensors of one number, the lost choices counted."""

import torch


def expert_bill(tokens, experts, k, factor):
    mean = torch.tensor(tokens * k / experts, dtype=torch.float64)
    rows = int(-(-factor * tokens * k // experts))
    spread = (mean * (1 - k / experts)).sqrt()
    above = spread / (2 * torch.pi) ** 0.5
    lost = k * max(0, tokens - rows) / (tokens * k)
    return [rows, (experts * above / (tokens * k)).item(), lost]
