"""ZeRO-1 (1910.02054, section 5.1): the optimizer's states are cut; gradients are summed to where they are needed.

Where DDP all-reduces, ZeRO-1 reduce-scatters before the step and gathers weights after it: the same bytes, 2(N-1)/N.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel import backward
from shardlab.data_parallel.agreement import Snapshot, copy_from_first, same_on_every_rank, trainable
from shardlab.data_parallel.alarm import Alarm
from shardlab.data_parallel.buckets import split_as
from shardlab.data_parallel.flat import FlatParameters
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer


class Zero1(ShardedOptimizer):
    """A sharded optimizer that averages the gradients itself: module, then `loss.backward()`, `step()`, `zero_grad()`.

    Each rank computes the gradients of its own part of the batch; several backwards before a step add up.
    parameter_groups: groups with options of their own; by default all trainable parameters in one.
    replicas: for hybrid sharding (HSDP), the ranks of other nodes that hold the same slice as this one. The model is
    cut over `group`, a node with fast links; between nodes only slices of gradients travel, 2(R-1)/R of an N-th.
    check_finite: False for loss scalers, which live on infinite gradients; trouble is then known to one rank only.
    average: False leaves the sum of all ranks' gradients, for a loss that is divided by all ranks' tokens already.
    same_buffers: in training, buffers such as BatchNorm's running means are made those of the first rank before each
    forward, as DDP does it; FSDP2 does not, and leaves each rank with means of its own.
    Raises ValueError on every rank for models that differ or are frozen, and later when a model was changed after it
    was wrapped or a gradient is not a number, each on any rank.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer_class: type[torch.optim.Optimizer],
        *,
        group: dist.ProcessGroup | None = None,
        parameter_groups: list[dict[str, Any]] | None = None,
        replicas: dist.ProcessGroup | None = None,
        check_finite: bool = True,
        average: bool = True,
        same_buffers: bool = True,
        **options: Any,
    ) -> None:
        named = trainable(module)
        same_on_every_rank(named, group=group)
        copy_from_first([*module.parameters(), *module.buffers()], group=group)
        if replicas is not None:
            copy_from_first([*module.parameters(), *module.buffers()], group=replicas)
        self.module, self.replicas, self.average = module, replicas, average
        if same_buffers:
            module.register_forward_pre_hook(self._copy_buffers)
        parameters = parameter_groups or [parameter for _, parameter in named]
        super().__init__(parameters, optimizer_class, group=group, **options)
        groups = [group] if replicas is None else [group, replicas]
        self.alarm = Alarm({parameter: name for name, parameter in named}, groups, is_on=check_finite)
        self._snapshot = Snapshot(module)
        self._homes = {parameter: vector.full for vector in self.vectors for parameter in vector.parameters}

    def _copy_buffers(self, module: nn.Module, _: Any) -> None:
        if module.training and not backward.is_running():
            copy_from_first(list(module.buffers()), group=self.group)
            if self.replicas is not None:
                copy_from_first(list(module.buffers()), group=self.replicas)

    @torch.no_grad()
    def _shard_gradients(self) -> Sequence[Tensor | None]:
        """The mean of every rank's gradients, of this rank's slices alone."""
        if change := self._snapshot.change(self._homes):
            self._ring(change)
        shards = self._means(self._outgoing())
        self.alarm.answer(shards)
        return shards

    def _outgoing(self) -> Iterator[Tensor]:
        """Each vector of gradients, laid end to end only when it is about to leave."""
        for vector in self.vectors:
            flat = vector.gradient()
            self.alarm.examine(vector.parameters, split_as(flat, vector.shapes), vector.heads(flat))
            yield flat

    def _means(self, flats: Iterable[Tensor]) -> list[Tensor]:
        """This rank's slice of the mean of each vector; one is laid end to end while another is on its way."""
        shards: list[Tensor] = []
        on_the_way: tuple[list[dist.Work], Tensor] | None = None
        for flat, vector in zip(flats, self.vectors, strict=True):
            shards += [] if on_the_way is None else [self._mean(*on_the_way)]
            on_the_way = self._reduce(flat, vector)
        return shards if on_the_way is None else [*shards, self._mean(*on_the_way)]

    def _mean(self, works: list[dist.Work], shard: Tensor) -> Tensor:
        for work in works:
            work.wait()
        self._turn_into_mean(shard)
        return shard

    def _reduce(self, flat: Tensor, vector: FlatParameters) -> tuple[list[dist.Work], Tensor]:
        """Start to sum a vector to its owners; the slice holds the sum when the works are done."""
        return vector.reduce(flat)

    @torch.no_grad()
    def _ring(self, change: str | None) -> None:
        """Send NaN in place of the gradients that the other ranks wait for, then raise with them."""
        self.alarm.complaints += [] if change is None else [change]
        arrived = self._means(vector.no_numbers() for vector in self.vectors) if self.alarm.is_on else []
        self.alarm.answer(arrived)

    def _turn_into_mean(self, shard: Tensor) -> None:
        """A slice holds the sum over the group; with replicas, they add theirs."""
        num_ranks = dist.get_world_size(self.group)
        if self.replicas is not None:
            dist.all_reduce(shard, group=self.replicas)
            num_ranks *= dist.get_world_size(self.replicas)
        if self.average:
            shard.div_(num_ranks)
