"""Average the gradients of an MoE model over the right ranks after the backward, and compute their norm.

An expert's gradient already includes the tokens of all ranks that sent it rows, since the backward of the all-to-all
brought their gradients. It only has to be summed over the ranks that hold a copy of the expert. The mean is still over
all ranks with tokens, as for other parameters: dividing by the number of copies would make expert gradients ep times
too large, which Adam hides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.expert_parallel.agreement import Group
from shardlab.expert_parallel.layer import ParallelMoE
from shardlab.mesh.gradient_norm import clip_by_norm, squared_norm


def expert_parameters(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that differ between expert-parallel ranks."""
    return [one for layer in module.modules() if isinstance(layer, ParallelMoE) for one in layer.experts.parameters()]


@torch.no_grad()
def average_gradients(module: nn.Module, *, group: Group, expert_group: Group) -> None:
    """Average gradients over all ranks of `group`, each of which has different tokens.

    expert_group: ranks that hold the same experts (edp). A missing gradient counts as zeros, since another rank may
    have one. Uses one all-reduce per dtype and group.
    """
    experts = set(expert_parameters(module))
    others = [one for one in module.parameters() if one not in experts]
    num_ranks = dist.get_world_size(group)
    _average(others, num_ranks, group)
    _average([one for one in module.parameters() if one in experts], num_ranks, expert_group)


def _average(parameters: Iterable[nn.Parameter], num_ranks: int, group: Group) -> None:
    trained = [one for one in parameters if one.requires_grad]
    for dtype in sorted({one.dtype for one in trained}, key=str):
        some = [one for one in trained if one.dtype == dtype]
        for one in some:
            one.grad = torch.zeros_like(one) if one.grad is None else one.grad
        gradients = [one.grad for one in some if one.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        if dist.get_world_size(group) > 1:
            dist.all_reduce(flat, group=group)
        for gradient, mean in zip(gradients, flat.split([one.numel() for one in gradients]), strict=True):
            gradient.copy_(mean.view_as(gradient)).div_(num_ranks)


@torch.no_grad()
def norm_of_gradients(module: nn.Module, *, groups: Iterable[Group]) -> Tensor:
    """The Euclidean norm of the whole model's gradients.

    The experts' squares are summed over the ep and etp groups; other parameters count once. With a norm of only the
    local gradients, each rank would clip by a different factor.
    """
    experts = expert_parameters(module)
    total = squared_norm(_gradients(experts), next(module.parameters()).device)
    for group in groups:
        dist.all_reduce(total, group=group)
    mine = set(experts)
    return (total + squared_norm(_gradients(one for one in module.parameters() if one not in mine))).sqrt()


def clip_gradients(module: nn.Module, max_norm: float, *, groups: Iterable[Group]) -> Tensor:
    """Scale all gradients so that the whole model's norm is at most `max_norm`. Returns the norm before clipping."""
    norm = norm_of_gradients(module, groups=groups)
    clip_by_norm(_gradients(module.parameters()), norm, max_norm)
    return norm


def _gradients(parameters: Iterable[nn.Parameter]) -> Iterator[Tensor]:
    return (one.grad for one in parameters if one.grad is not None)
