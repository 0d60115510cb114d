"""Bytes that a rank holds: model states, activations saved for a backward, and everything alive in a step."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


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


class Alive(TorchDispatchMode):
    """`peak` is the most bytes that were alive at once; `now` is the count after the latest operator.

    The CPU's counterpart of `torch.cuda.max_memory_allocated`. A dispatch mode sees the results of every operator and
    keeps weak references to their storages: a storage counts from the operator that created it until nothing, including
    autograd, needs it. Memory that a kernel allocates and frees within one operator is not counted, and neither are
    gloo's buffers.
    """

    def __init__(self, known: Iterable[Tensor]) -> None:
        super().__init__()
        self.peak = self.now = 0
        self._storages: dict[int, weakref.ref] = {}
        self._add(known)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise the first operator imports torch._dynamo: 800 modules, two seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind.__module__.startswith("torch.distributed") for kind in types):
            return NotImplemented  # a DTensor is first unwrapped into plain tensors, which arrive here again
        answer = func(*args, **(kwargs or {}))
        self._add(leaf for leaf in tree_leaves((args, kwargs, answer)) if isinstance(leaf, Tensor))
        self.look()
        return answer

    def look(self) -> None:
        """Count again, because storages may have been resized."""
        found = {key: storage for key, ref in self._storages.items() if (storage := ref()) is not None}
        self.now = sum(storage.nbytes() for storage in found.values())
        self._storages = {key: self._storages[key] for key in found}
        self.peak = max(self.peak, self.now)

    def _add(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            local = tensor.to_local() if hasattr(tensor, "to_local") else tensor  # type: ignore[operator]
            storage = local.untyped_storage()
            key = storage._cdata
            known = self._storages.get(key)
            if known is None or known() is None:  # an address may be reused
                self._storages[key] = weakref.ref(storage)


@contextmanager
def alive(known: Iterable[Tensor] = ()) -> Iterator[Alive]:
    """Count the storages of `known` tensors and of all tensors that operators in the block read or create, each once.

    >>> with alive(model.parameters()) as watched:
    ...     model(batch).sum().backward()
    >>> watched.peak
    """
    with Alive(known) as watched:
        watched.look()
        yield watched
