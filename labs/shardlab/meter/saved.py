"""Activations that autograd saves in a forward for its backward, as tensors you can inspect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class SavedStorages:
    """The saved storages, each counted once: a view keeps its whole storage alive, and several views share one."""

    def __init__(self, without: Iterable[Tensor] = ()) -> None:
        self.tensors: dict[int, Tensor] = {}  # by storage; the tensors stay alive, so no address is reused
        self._without = {tensor.untyped_storage()._cdata for tensor in without}

    def note(self, tensor: Tensor) -> Tensor:
        """Count a tensor's storage, unless it was counted before or belongs to a parameter."""
        storage = tensor.untyped_storage()._cdata
        if storage not in self._without:
            self.tensors.setdefault(storage, tensor.detach())
        return tensor

    @property
    def num_bytes(self) -> int:
        """Bytes of all storages."""
        return sum(tensor.untyped_storage().nbytes() for tensor in self.tensors.values())

    def __str__(self) -> str:
        rows = [(tensor.untyped_storage().nbytes(), tensor) for tensor in self.tensors.values()]
        ordered = sorted(rows, key=lambda row: -row[0])
        return "\n".join(f"{size:12,} B  {str(one.dtype)[6:]} {list(one.shape)}" for size, one in ordered)


@contextmanager
def saved(without: Iterable[Tensor] = ()) -> Iterator[SavedStorages]:
    """Count what operators in the block save for a backward, except the tensors in `without` (the parameters).

    >>> with saved(model.parameters()) as kept:
    ...     output = model(batch)
    >>> kept.num_bytes
    """
    kept = SavedStorages(without)
    with torch.autograd.graph.saved_tensors_hooks(kept.note, lambda tensor: tensor):
        yield kept
