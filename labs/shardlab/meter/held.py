"""Bytes that a rank holds: parameters, gradients and optimizer state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class ModelStates:
    """Bytes held on this rank, by purpose (the model states of ZeRO, 1910.02054, section 3.1)."""

    parameters: int
    gradients: int
    optimizer_state: int

    @property
    def total(self) -> int:
        """All model states together, in bytes."""
        return self.parameters + self.gradients + self.optimizer_state


def bytes_held(module: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> ModelStates:
    """Count the storage behind a module's parameters and gradients and an optimizer's state, each storage once.

    Tied weights and views share one storage and count once. A sharded tensor (DTensor) counts its local part.
    """
    parameters = list(module.parameters())
    states = [] if optimizer is None else [v for state in optimizer.state.values() for v in state.values()]
    return ModelStates(
        parameters=storage_bytes(parameters),
        gradients=storage_bytes(p.grad for p in parameters if p.grad is not None),
        optimizer_state=storage_bytes(v for v in states if isinstance(v, torch.Tensor)),
    )


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the storages of some tensors, counting each storage once."""
    local = [t.to_local() if hasattr(t, "to_local") else t for t in tensors]  # type: ignore[operator]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in local if t.device.type != "meta"}
    return sum(storages.values())
