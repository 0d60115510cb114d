"""Parameters and gradients of a split model: which ones are split, and which must be summed before the update.

Most gradients are complete. A rank's gradient is only a part of the sum in two cases: the parameter is whole but the
rank has seen only a part of the tokens (norms, row biases and positions under sequence parallelism), or several ranks
have the same key-value head but use it with different queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.messages import Group, start_all_reduce


class Partial(NamedTuple):
    """A tensor to be summed over the ranks with the same `number`, which is one of `count` such sums."""

    tensor: Tensor
    number: int
    count: int


def cuts_of(module: nn.Module) -> dict[str, Cut]:
    """How each split parameter is split, by name. All other parameters are whole on every rank."""
    return {
        f"{path}.{name}".lstrip("."): cut
        for path, one in module.named_modules()
        for name, cut in getattr(one, "cuts", {}).items()
        if getattr(one, name, None) is not None
    }


@torch.no_grad()
def sum_partial_gradients(module: nn.Module, *, group: Group) -> None:
    """Sum the partial gradients over ranks. Call it once, after the last backward and before the update.

    Uses one all-reduce per dtype, or none if nothing is partial (Megatron-Core, distributed/finalize_model_grads.py).
    """
    sums = Sums()
    for one in _partial_gradients(module, group):
        sums.add(*one)
    sums.reduce(group=group)


class Sums:
    """Tensors to be summed over ranks in place, with one all-reduce per dtype."""

    def __init__(self) -> None:
        self._found: list[Partial] = []

    def add(self, tensor: Tensor, number: int = 0, count: int = 1) -> None:
        """Sum `tensor` over the ranks that pass the same number; there are `count` such sums."""
        self._found.append(Partial(tensor, number, count))

    def reduce(self, *, group: Group) -> None:
        """Sum all added tensors. Sends nothing if there are none."""
        for dtype in sorted({one.tensor.dtype for one in self._found}, key=str):
            mine = [one for one in self._found if one.tensor.dtype == dtype]
            sums = torch.cat([_among_zeros(one) for one in mine])
            sums = start_all_reduce(sums, group=group)()
            for one, all_sums in zip(mine, sums.split([one.count * one.tensor.numel() for one in mine]), strict=True):
                one.tensor.copy_(all_sums.view(one.count, *one.tensor.shape)[one.number])


class PartialShard(NamedTuple):
    """The elements begin : end of a flattened gradient, which are a part of sum `number` of `count`."""

    begin: int
    end: int
    number: int
    count: int


def partial_shards(module: nn.Module, *, group: Group) -> dict[nn.Parameter, list[PartialShard]]:
    """The partial ranges of each parameter's gradient, for ranks that may hold only a shard of it."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    found: dict[nn.Parameter, list[PartialShard]] = {}
    for one in module.modules():
        parameters = dict(one.named_parameters(recurse=False))
        for name in getattr(one, "partial", ()):
            if name in parameters:
                found[parameters[name]] = [PartialShard(0, parameters[name].numel(), 0, 1)]
        for name, cut in getattr(one, "cuts", {}).items():
            if name in parameters and cut.dim == 0:  # units, and therefore copies, are groups of rows
                inner, begin = parameters[name][0].numel(), 0
                for length, copies in (cut.shard(number, size) for number in range(len(cut.sections))):
                    if copies > 1:
                        shard = PartialShard(begin, begin + length * inner, rank // copies, size // copies)
                        found.setdefault(parameters[name], []).append(shard)
                    begin += length * inner
    return found


def _partial_gradients(module: nn.Module, group: Group) -> Iterator[Partial]:
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    for one in module.modules():
        parameters = dict(one.named_parameters(recurse=False))
        for name in getattr(one, "partial", ()):
            if name in parameters and parameters[name].grad is not None:
                yield Partial(parameters[name].grad, 0, 1)  # type: ignore[arg-type]
        for name, cut in getattr(one, "cuts", {}).items():
            if name not in parameters or parameters[name].grad is None:
                continue
            shards = [cut.shard(number, size) for number in range(len(cut.sections))]
            sections = parameters[name].grad.split([length for length, _ in shards], cut.dim)  # type: ignore[union-attr]
            for section, (_, copies) in zip(sections, shards, strict=True):
                if copies > 1:
                    yield Partial(section, rank // copies, size // copies)


def _among_zeros(one: Partial) -> Tensor:
    """The tensor at its place among zeros, so that this rank adds nothing to the other sums."""
    places = one.tensor.new_zeros(one.count, one.tensor.numel())
    places[one.number] = one.tensor.flatten()
    return places.flatten()
