"""Does an optimizer treat each number by itself? Then it may work on shards. A few steps on small tensors show it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

STEPS, ROWS, COLUMNS, CUT = 3, 4, 6, 13


def refuse_unshardable(optimizer_class: type[torch.optim.Optimizer]) -> None:
    """Raise ValueError, with the reason, for optimizers that no cut of the parameters suits."""
    if issubclass(optimizer_class, torch.optim.LBFGS):
        raise ValueError(
            "LBFGS searches along one line for all parameters together and asks for the loss several times per step: "
            "ranks with a part each would search apart. Use it in one process, or DataParallel with Adam"
        )
    if issubclass(optimizer_class, torch.optim.SparseAdam):
        raise ValueError(
            "SparseAdam wants sparse gradients, and those cannot be laid end to end and cut: use Adam with a dense "
            "embedding, whose state is sharded"
        )


def refuse_what_needs_matrices(
    optimizer_class: type[torch.optim.Optimizer], options: dict[str, Any], device: torch.device
) -> None:
    """Raise ValueError for an optimizer that moves a matrix otherwise than the same numbers in two flat shards."""
    needs_matrices = issubclass(optimizer_class, torch.optim.Muon)  # refuses a flat tensor itself
    if needs_matrices or not _is_elementwise(optimizer_class, options, device):
        raise ValueError(
            f"{optimizer_class.__name__} looks at more than one number at a time and cannot work on a shard that ends "
            "inside a matrix: give layout=WholeParameters, so that each parameter has one owner, or use an optimizer "
            "that treats each number by itself, such as SGD, Adam or AdamW"
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
    """All weights end to end, after steps with known gradients; drawn: of each weight its start and its gradients."""
    weights = [nn.Parameter(start.clone()) for start, *_ in drawn]
    optimizer = optimizer_class(weights, **options)
    for step in range(1, STEPS + 1):
        for weight, numbers in zip(weights, drawn, strict=True):
            weight.grad = numbers[step].clone()
        optimizer.step()
    return torch.cat([weight.detach().view(-1) for weight in weights])
