"""Bytes that are alive while a block of code runs: the CPU's counterpart of `torch.cuda.max_memory_allocated`.

A dispatch mode sees the results of every operator and keeps weak references to their storages: a storage counts from
the operator that created it until nothing, including autograd, needs it. Memory that a kernel allocates and frees
within one operator is not counted, and neither are gloo's buffers.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Alive(TorchDispatchMode):
    """`peak` is the most bytes that were alive at once; `now` is the count after the latest operator."""

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
