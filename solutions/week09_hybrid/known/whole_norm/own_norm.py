"""Wrong: the norm of what this rank holds."""

import torch


def whole_norm(gradients, is_split, *, tp_group, pp_group):
    total = sum((g.float().square().sum() for g in gradients), torch.zeros(()))
    return total.sqrt()
