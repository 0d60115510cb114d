"""Refuse optimizers that cannot work on shards, with the reason; a few steps on small tensors find out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

STEPS, ROWS, COLUMNS, CUT = 3, 4, 6, 13
UNSHARDABLE = {
    torch.optim.LBFGS: "LBFGS searches along one line for all parameters together and evaluates the loss several times "
    "per step, but ranks with shards would search separately. Use it in one process, or DataParallel with Adam",
    torch.optim.SparseAdam: "SparseAdam needs sparse gradients, which cannot be flattened and sharded: use Adam with a "
    "dense embedding, whose state is sharded",
}


def refuse_unsuitable(
    kind: type[torch.optim.Optimizer],
    groups: list[dict[str, Any]],
    options: dict[str, Any],
    *,
    device: torch.device,
    cuts_matrices: bool,
) -> None:
    """Raise ValueError on every rank for an optimizer that cannot be sharded, or not so that matrices are cut."""
    for unshardable, reason in UNSHARDABLE.items():
        if issubclass(kind, unshardable):
            raise ValueError(reason)
    if not cuts_matrices:
        kind([dict(one) for one in groups], **options)  # raises here on all ranks, not only on a parameter's owner
        return
    settings = {name: value for name, value in (options | groups[0]).items() if name != "params"}
    if issubclass(kind, torch.optim.Muon) or not _is_elementwise(kind, settings, device):  # Muon refuses flat tensors
        raise ValueError(
            f"{kind.__name__} is not elementwise and cannot work on a shard that ends inside a matrix: give "
            "layout=WholeParameters, so that each parameter has one owner, or use an elementwise optimizer, such as "
            "SGD, Adam or AdamW"
        )


def _is_elementwise(kind: type[torch.optim.Optimizer], options: dict[str, Any], device: torch.device) -> bool:
    """Whether a matrix is updated as the same numbers in two flat shards are."""
    numbers = torch.randn(STEPS + 1, ROWS * COLUMNS, generator=torch.Generator().manual_seed(0)).to(device)
    whole = _after_steps(kind, options, [numbers.view(-1, ROWS, COLUMNS)])
    shards = _after_steps(kind, options, [numbers[:, :CUT], numbers[:, CUT:]])
    return torch.allclose(whole, shards, rtol=1e-4, atol=1e-7)


def _after_steps(kind: type[torch.optim.Optimizer], options: dict[str, Any], drawn: list[Tensor]) -> Tensor:
    """All weights, flattened, after steps with known gradients. drawn: each weight's initial value and gradients."""
    weights = [nn.Parameter(start.clone()) for start, *_ in drawn]
    optimizer = kind(weights, **options)
    for step in range(1, STEPS + 1):
        for weight, numbers in zip(weights, drawn, strict=True):
            weight.grad = numbers[step].clone()
        optimizer.step()
    return torch.cat([weight.detach().view(-1) for weight in weights])
