"""The norm of a model whose gradients lie on many ranks, and clipping by it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.mesh.process_groups import ProcessGroups


@torch.no_grad()
def whole_norm(parameters: Iterable[nn.Parameter], split: set[nn.Parameter], *, groups: ProcessGroups) -> Tensor:
    """The Euclidean norm of one model's gradients, wherever they lie; the same number on every rank.

    Squares add up over tp and pp. What every tensor-parallel rank holds is counted on the first of them only. Not over
    dp: there the gradients are already the same (Megatron-Core, optimizer/clip_grads.py, counts in the same way).
    split: the parameters of which tensor-parallel ranks have different parts.
    """
    first = dist.get_rank(groups.of("tp")) == 0
    total = torch.zeros((), dtype=torch.float64)
    for parameter in parameters:
        if parameter.grad is not None and (first or parameter in split):
            total += parameter.grad.double().square().sum().cpu()
    total = total.to(groups.device_mesh.device_type)
    dist.all_reduce(total, group=groups.of("tp", "pp"))
    return total.sqrt()


@torch.no_grad()
def clip_by_whole_norm(
    parameters: Iterable[nn.Parameter], split: set[nn.Parameter], max_norm: float, *, groups: ProcessGroups
) -> Tensor:
    """Scale all gradients so that the whole model's have a norm of at most `max_norm`; returns the norm before."""
    parameters = list(parameters)
    norm = whole_norm(parameters, split, groups=groups)
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)  # torch's clip_grad_norm_ has the same 1e-6
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(scale.to(parameter.grad.device))
    return norm
