"""Reduce gradients to the shards of their owners: at the step (ZeRO-1), or during the backward (ZeRO-2 and 3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel import backward
from shardlab.data_parallel.agreement import Snapshot
from shardlab.data_parallel.alarm import Alarm
from shardlab.data_parallel.buckets import Arrivals, Bucket
from shardlab.data_parallel.flat import FlatParameters, Works
from shardlab.data_parallel.messages import Reduce

if TYPE_CHECKING:
    from shardlab.data_parallel.weights import GatheredUnits, WholeWeights

MOST_ON_THE_WAY = 2  # buckets in flight, whose full gradients are held; another is being filled


class AlreadyReduced:
    """For gradients that are already the same on every rank, as after DDP.

    `shards` returns this rank's shard of each vector at the step, `held` the gradients stored in addition to
    `parameter.grad`. `forget` drops them, and what a backward that raised left behind.
    """

    def __init__(self, vectors: Sequence[FlatParameters]) -> None:
        self._vectors = vectors

    def shards(self) -> list[Tensor]:
        return [vector.own_shard(vector.gradient()) for vector in self._vectors]

    def held(self) -> list[Tensor]:
        return []

    def forget(self) -> None: ...


class Gradients:
    """Sums each vector's gradients to their owners. The sums of several backwards add up in this rank's shards.

    in_backward: whole gradients exist only while their bucket is in flight. Otherwise they stay whole until the step.
    replicas: ranks that hold the same shards, over which shards are summed too. average: the mean instead of the sum.
    dtype: in which the gradients of several backwards add up.
    """

    def __init__(
        self,
        module: nn.Module,
        vectors: Sequence[FlatParameters],
        weights: WholeWeights | GatheredUnits,
        alarm: Alarm,
        *,
        in_backward: bool,
        replicas: dist.ProcessGroup | None,
        average: bool,
        reduce: Reduce,
        dtype: torch.dtype | None,
    ) -> None:
        self._vectors, self._weights, self.alarm = vectors, weights, alarm
        self._in_backward, self._replicas, self._reduce, self._dtype = in_backward, replicas, reduce, dtype
        num_ranks = dist.get_world_size(vectors[0].group) * (1 if replicas is None else dist.get_world_size(replicas))
        self._divisor = num_ranks if average else 1
        self._snapshot = Snapshot(module)
        self._homes = {parameter: vector.full for vector in vectors for parameter in vector.parameters}
        self._on_the_way: deque[tuple[int, Works, Tensor]] = deque()
        self._shards: list[Tensor | None] = [None] * len(vectors)
        if in_backward:
            module.register_forward_pre_hook(self._before_forward)
            module.register_forward_hook(self._after_forward)
        elif dtype is not None:
            for parameter in self._homes:
                parameter.grad_dtype = dtype
        buckets = [Bucket(vector.parameters, length=sum(vector.lengths)) for vector in vectors]
        self.arrivals = Arrivals(buckets, alarm, send=self.send, finish=self._finish)
        self.arrivals.is_on = in_backward

    def shards(self) -> list[Tensor | None]:
        """This rank's shard of each vector's gradients. Raises ValueError on every rank if any rank has trouble."""
        if not self._in_backward:
            if change := self.change():
                self.raise_alarm(change)
            self._finish()
        return self._shards

    def _before_forward(self, module: nn.Module, _: Any) -> None:
        if not backward.is_running():
            self.forget_one_that_raised()
            self._weights.before_forward(self)

    def _after_forward(self, module: nn.Module, _: Any, output: Any) -> None:
        if not backward.is_running():
            self.arrivals.watch(output)

    def send(self, number: int) -> None:
        """Start to sum a full bucket, then wait for all but the newest ones."""
        bucket, vector = self.arrivals.buckets[number], self._vectors[number]
        self.alarm.examine(bucket.parameters, bucket.gradients, vector.slice_heads(bucket.flat))
        self._on_the_way.append((number, *self._reduce(vector, bucket.flat)))
        self._weights.has_left(number)
        self._add_sums(leave=MOST_ON_THE_WAY)

    def _sums(self, *, leave: int = 0) -> Iterator[tuple[int, Tensor]]:
        """Wait for the oldest buckets and free them. Yields each one's number and this rank's shard of the sum."""
        while len(self._on_the_way) > leave:
            number, works, shard = self._on_the_way.popleft()
            for work in works:
                work.wait()
            self.arrivals.buckets[number].free()
            if self._replicas is not None:
                dist.all_reduce(shard, group=self._replicas)
            yield number, shard if self._divisor == 1 else shard.div_(self._divisor)

    def _add_sums(self, *, leave: int) -> None:
        for number, shard in self._sums(leave=leave):
            before = self._shards[number]
            self._shards[number] = shard.to(self._dtype or shard.dtype) if before is None else before.add_(shard)

    @torch.no_grad()
    def _finish(self) -> None:
        """Send what is left and wait for all sums: at the end of a backward, or at the step."""
        self.arrivals.send_rest()
        self._add_sums(leave=0)
        self.arrivals.close()
        self._weights.end_backward(has_raised=False)
        self.alarm.answer(self._shards)

    def change(self) -> str | None:
        """A description of what has changed in the model since it was wrapped."""
        return self._snapshot.change(self._homes)

    @torch.no_grad()
    def raise_alarm(self, change: str | None) -> None:
        """Send NaN instead of the gradients that other ranks are waiting for, then raise on all ranks."""
        self.alarm.complaints += [] if change is None else [change]
        arrived: list[Tensor] = []
        for number, bucket in enumerate(self.arrivals.buckets if self.alarm.is_on else []):
            bucket.flat.fill_(torch.nan)
            self._on_the_way.append((number, *self._reduce(self._vectors[number], bucket.flat)))
            arrived += [shard for _, shard in self._sums()]
        self.alarm.answer(arrived)

    def held(self) -> list[Tensor]:
        return [shard for shard in self._shards if shard is not None]

    def forget_one_that_raised(self) -> None:
        """Reset after a backward that raised, which leaves half-full buckets."""
        if self.arrivals.is_running:
            kept = self._shards
            self.forget()
            self._shards = kept

    def forget(self) -> None:
        self.alarm.forget()
        self._on_the_way.clear()
        self.arrivals.close()
        for bucket in self.arrivals.buckets:
            bucket.free()
        self._weights.end_backward(has_raised=True)
        self._shards = [None] * len(self._shards)
