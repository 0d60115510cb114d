"""Find out whether an optimizer is elementwise, and so can work on shards, from a few steps on small tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

STEPS, ROWS, COLUMNS, CUT = 3, 4, 6, 13


def refuse_unshardable(optimizer_class: type[torch.optim.Optimizer]) -> None:
    """Raise ValueError, with the reason, for optimizers that cannot be sharded at all."""
    if issubclass(optimizer_class, torch.optim.LBFGS):
        raise ValueError(
            "LBFGS searches along one line for all parameters together and evaluates the loss several times per step, "
            "but ranks with shards would search separately. Use it in one process, or DataParallel with Adam"
        )
    if issubclass(optimizer_class, torch.optim.SparseAdam):
        raise ValueError(
            "SparseAdam needs sparse gradients, which cannot be flattened and sharded: use Adam with a dense "
            "embedding, whose state is sharded"
        )


def refuse_what_needs_matrices(
    optimizer_class: type[torch.optim.Optimizer], options: dict[str, Any], device: torch.device
) -> None:
    """Raise ValueError for an optimizer that updates a matrix differently from the same numbers in two flat shards."""
    needs_matrices = issubclass(optimizer_class, torch.optim.Muon)  # refuses a flat tensor itself
    if needs_matrices or not _is_elementwise(optimizer_class, options, device):
        raise ValueError(
            f"{optimizer_class.__name__} is not elementwise and cannot work on a shard that ends inside a matrix: give "
            "layout=WholeParameters, so that each parameter has one owner, or use an elementwise optimizer, such as "
            "SGD, Adam or AdamW"
        )


def _is_elementwise(
    optimizer_class: type[torch.optim.Optimizer], options: dict[str, Any], device: torch.device
) -> bool:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(STEPS + 1, ROWS * COLUMNS, generator=generator).to(device)
    whole = _after_steps(optimizer_class, options, [numbers.view(-1, ROWS, COLUMNS)])
    shards = _after_steps(optimizer_class, options, [numbers[:, :CUT], numbers[:, CUT:]])
    return torch.allclose(whole, shards, rtol=1e-4, atol=1e-7)


def _after_steps(optimizer_class: type[torch.optim.Optimizer], options: dict[str, Any], drawn: list[Tensor]) -> Tensor:
    """All weights, flattened, after steps with known gradients. drawn: each weight's initial value and gradients."""
    weights = [nn.Parameter(start.clone()) for start, *_ in drawn]
    optimizer = optimizer_class(weights, **options)
    for step in range(1, STEPS + 1):
        for weight, numbers in zip(weights, drawn, strict=True):
            weight.grad = numbers[step].clone()
        optimizer.step()
    return torch.cat([weight.detach().view(-1) for weight in weights])
