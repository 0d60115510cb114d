"""Which rank updates which weights, from which gradients: all of them (zero = 0) or slices of them (zero = 1 to 3).

Both have the same phases: `passes`, around all forwards and backwards; `reduce`, after the last backward; then the
caller may change the masters' gradients; `update`. `slices` yields the part of each parameter that this rank updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel.agreement import copy_from_first
from shardlab.data_parallel.ddp import DataParallel, sum_by_all_reduce
from shardlab.data_parallel.flat import FlatParameters
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from shardlab.hybrid.groups import Sharing
from shardlab.hybrid.part import Share

NewOptimizer = Callable[[list[Any]], torch.optim.Optimizer]


class MasterShard(NamedTuple):
    """The elements begin : end of a flattened parameter, stored in a flattened master starting at `at`."""

    parameter: nn.Parameter
    master: nn.Parameter
    begin: int
    end: int
    at: int


class Weights(Protocol):
    """The weights of one stage whose gradients are summed over one group of ranks.

    copies: how many ranks of the group hold the same slices. copy: this rank's index among them.
    """

    optimizer: torch.optim.Optimizer
    copies: int
    copy: int

    def slices(self) -> Iterator[MasterShard]: ...

    def passes(self) -> AbstractContextManager[None]:
        """A context around the step's forwards and backwards."""
        ...

    def bad(self) -> Iterator[nn.Parameter]:
        """Parameters whose gradient was not finite on this rank, before this step's sums."""
        ...

    def reduce(self) -> None:
        """Sum the gradients over the ranks of the group, into the masters' `grad`."""
        ...

    def update(self) -> None:
        """Step the optimizer. Afterwards the model has the new weights and no gradients."""
        ...

    def forget(self) -> None:
        """Drop the gradients without an update."""
        ...

    def publish(self) -> None:
        """Copy the masters into the model, after a load."""
        ...


class WholeWeights:
    """Every rank updates all weights, with any optimizer. A lower compute_dtype adds separate master weights."""

    def __init__(
        self,
        share: Share,
        new_optimizer: NewOptimizer,
        *,
        sharing: Sharing,
        compute_dtype: torch.dtype | None,
        options: dict[str, Any],
    ) -> None:
        parameters = [one for one in share.parameters() if one.requires_grad]
        self.copies, self.copy = dist.get_world_size(sharing.all), dist.get_rank(sharing.all)
        copy_from_first(parameters, group=sharing.all)
        self.masters = {one: one for one in parameters}
        if compute_dtype is not None:
            self.masters = {one: nn.Parameter(one.detach().clone()) for one in parameters}
            for one in parameters:
                lower(one, compute_dtype)
        self._replicas = DataParallel(share, group=sharing.all, reduce=sum_by_all_reduce, check_finite=False, **options)
        self.optimizer = new_optimizer(list(self.masters.values()))

    def slices(self) -> Iterator[MasterShard]:
        for parameter, master in self.masters.items():
            yield MasterShard(parameter, master, 0, master.numel(), 0)

    def passes(self) -> AbstractContextManager[None]:
        self._replicas.alarm.listen()
        return self._replicas.no_sync()

    def bad(self) -> Iterator[nn.Parameter]:
        yield from self._replicas.alarm.bad()

    def reduce(self) -> None:
        self._replicas.reduce_gradients()
        for parameter, master in self.masters.items():
            master.grad = parameter.grad

    def update(self) -> None:
        self.optimizer.step()
        self.forget()
        self.publish()

    def forget(self) -> None:
        for parameter, master in self.masters.items():
            parameter.grad = master.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        for parameter, master in self.masters.items():
            if parameter is not master:
                parameter.copy_(master)


class SlicedWeights:
    """Each rank updates its slices, using data_parallel's `Zero1`, `Zero2` or `Zero3` with sums instead of averages.

    apart: parameters to shard in a separate vector, because another stage also holds and shards them.
    """

    def __init__(
        self,
        share: Share,
        new_optimizer: NewOptimizer,
        *,
        sharing: Sharing,
        zero: int,
        units: Sequence[nn.Module],
        apart: Sequence[nn.Parameter],
        compute_dtype: torch.dtype | None,
        options: dict[str, Any],
    ) -> None:
        trained = [one for one in share.parameters() if one.requires_grad]
        main_dtype = trained[0].dtype
        lists = [[one for one in trained if one not in set(apart)], list(apart)]
        optimizer_class, settings = class_and_options(new_optimizer)
        more: dict[str, Any] = ({}, options, {"units": units})[zero - 1]
        self.zero = (Zero1, Zero2, Zero3)[zero - 1](
            share,
            optimizer_class,
            group=sharing.cut,
            replicas=sharing.replicas,
            parameter_groups=[{"params": some} for some in lists if some],
            check_finite=False,
            average=False,
            same_buffers=False,  # router buffers are updated over the whole mesh
            compute_dtype=compute_dtype,
            gradient_dtype=main_dtype if compute_dtype is not None else None,
            **more,
            **settings,
        )
        self.optimizer = self.zero.local
        self.copies = 1 if sharing.replicas is None else dist.get_world_size(sharing.replicas)
        self.copy = 0 if sharing.replicas is None else dist.get_rank(sharing.replicas)

    def slices(self) -> Iterator[MasterShard]:
        for vector in self.zero.vectors:
            yield from slices_of(vector)

    def passes(self) -> AbstractContextManager[None]:
        self.zero.alarm.listen()
        return nullcontext()

    def bad(self) -> Iterator[nn.Parameter]:
        yield from self.zero.alarm.bad()

    def reduce(self) -> None:
        self.zero.reduce_gradients()

    def update(self) -> None:
        self.zero.update()
        self.forget()

    def forget(self) -> None:
        self.zero.zero_grad()

    def publish(self) -> None:
        self.zero.all_gather_params()


def slices_of(vector: FlatParameters) -> Iterator[MasterShard]:
    """The parts of a flat vector's parameters that are in this rank's slice."""
    first = dist.get_rank(vector.group) * vector.shard_elements
    start = 0
    for parameter, shape in zip(vector.parameters, vector.shapes, strict=True):
        begin, end = max(start, first), min(start + shape.numel(), first + vector.shard_elements)
        if begin < end:
            yield MasterShard(parameter, vector.master, begin - start, end - start, begin - first)
        start += shape.numel()


def class_and_options(new_optimizer: NewOptimizer) -> tuple[type[torch.optim.Optimizer], dict[str, Any]]:
    """An optimizer's class and options, as ZeRO needs them. Raises ValueError for a function, which hides both."""
    if isinstance(new_optimizer, partial) and isinstance(new_optimizer.func, type) and not new_optimizer.args:
        return new_optimizer.func, dict(new_optimizer.keywords)
    if isinstance(new_optimizer, type):
        return new_optimizer, {}
    raise ValueError(
        "ZeRO builds the optimizer on slices: give a class or functools.partial(torch.optim.AdamW, lr=1e-3), "
        "not a function"
    )


def lower(parameter: nn.Parameter, dtype: torch.dtype) -> None:
    """Convert a parameter to a lower dtype, and accumulate its gradients in its original dtype."""
    main_dtype = parameter.dtype
    parameter.data = parameter.data.to(dtype)
    parameter.grad_dtype = main_dtype


def flat(tensor: Tensor) -> Tensor:
    """A flat view of a tensor that shares its memory."""
    return tensor.detach().view(-1)
