"""Different: gradient by gradient, the count first."""

import torch
import torch.distributed as dist


def finish_gradients(gradients, kinds, tokens, *, copies, edp, tp, ends):
    valid = torch.tensor([float(tokens)], dtype=torch.float64)
    dist.all_reduce(valid, group=copies)
    partial_over = {"norm": tp, "tied": ends}
    finished = []
    for gradient, kind in zip(gradients, kinds, strict=True):
        total = gradient.clone()
        if kind in partial_over:
            dist.all_reduce(total, group=partial_over[kind])
        dist.all_reduce(total, group=edp if kind == "expert" else copies)
        finished.append(total / valid.item())
    return finished
