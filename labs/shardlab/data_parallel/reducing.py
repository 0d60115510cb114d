"""Reduce gradients at the step (ZeRO-1), or bucket by bucket in the backward (ZeRO-2 and 3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel import backward
from shardlab.data_parallel.agreement import Snapshot
from shardlab.data_parallel.alarm import Alarm
from shardlab.data_parallel.buckets import Bucket, split_as
from shardlab.data_parallel.flat import FlatParameters, Works

MOST_ON_THE_WAY = 2  # buckets in flight, whose full gradients are held; another is being filled
Reduce = Callable[[FlatParameters, Tensor], tuple[Works, Tensor]]


def reduce_plain(vector: FlatParameters, full: Tensor) -> tuple[Works, Tensor]:
    """Start to sum a vector of gradients without compression."""
    return vector.layout.reduce(vector, full)


class AlreadyReduced:
    """For gradients that are already the same on every rank, as after DDP.

    All three sources of gradients have these methods: `shards` returns this rank's shard of each vector at the step,
    `held` returns the gradients stored in addition to `parameter.grad`, and `forget` drops what a backward that raised
    left behind.
    """

    def __init__(self, vectors: Sequence[FlatParameters]) -> None:
        self._vectors = vectors

    def shards(self) -> list[Tensor]:
        return [vector.own_shard(vector.gradient()) for vector in self._vectors]

    def held(self) -> list[Tensor]:
        return []

    def forget(self) -> None: ...


class Reducer:
    """Sums vectors of gradients to their owners at the step, and raises the alarm on every rank.

    replicas: ranks that hold the same shards, over which shards are summed too. average: the mean instead of the sum.
    """

    def __init__(
        self,
        module: nn.Module,
        vectors: Sequence[FlatParameters],
        alarm: Alarm,
        *,
        replicas: dist.ProcessGroup | None,
        average: bool,
        reduce: Reduce,
    ) -> None:
        self.module, self.vectors, self.alarm = module, vectors, alarm
        self._replicas, self._reduce = replicas, reduce
        num_ranks = dist.get_world_size(vectors[0].group) * (1 if replicas is None else dist.get_world_size(replicas))
        self._divisor = num_ranks if average else 1
        self._snapshot = Snapshot(module)
        self._homes = {parameter: vector.full for vector in vectors for parameter in vector.parameters}
        self._on_the_way: deque[tuple[int, Works, Tensor]] = deque()

    @torch.no_grad()
    def shards(self) -> list[Tensor]:
        if change := self.change():
            self.raise_alarm(change)
        shards = self._reduce_all(self._outgoing())
        self.alarm.answer(shards)
        return shards

    def _outgoing(self) -> Iterator[Tensor]:
        for vector in self.vectors:
            full = vector.gradient()
            self.alarm.examine(vector.parameters, split_as(full, vector.shapes), vector.slice_heads(full))
            yield full

    def _reduce_all(self, fulls: Iterable[Tensor]) -> list[Tensor]:
        """Reduce vectors one by one, flattening one while another is in flight."""
        self._on_the_way.clear()
        shards: list[Tensor] = []
        for number, full in enumerate(fulls):
            shards += [shard for _, shard in self.receive()]
            self.send(number, full)
        return shards + [shard for _, shard in self.receive()]

    def send(self, number: int, full: Tensor) -> None:
        """Start to sum the gradients of a vector."""
        self._on_the_way.append((number, *self._reduce(self.vectors[number], full)))

    def receive(self, *, leave: int = 0) -> Iterator[tuple[int, Tensor]]:
        """Wait for the oldest sums, and yield each vector's number and this rank's shard."""
        while len(self._on_the_way) > leave:
            number, works, shard = self._on_the_way.popleft()
            for work in works:
                work.wait()
            if self._replicas is not None:
                dist.all_reduce(shard, group=self._replicas)
            yield number, shard if self._divisor == 1 else shard.div_(self._divisor)

    def change(self) -> str | None:
        """A description of what has changed in the model since it was wrapped."""
        return self._snapshot.change(self._homes)

    @torch.no_grad()
    def raise_alarm(self, change: str | None) -> None:
        """Send NaN instead of the gradients that other ranks are waiting for, then raise on all ranks."""
        self.alarm.complaints += [] if change is None else [change]
        self.alarm.answer(self._reduce_all(one.nan_filled() for one in self.vectors) if self.alarm.is_on else [])

    def held(self) -> list[Tensor]:
        return []

    def forget(self) -> None:
        self.alarm.forget()
        self._on_the_way.clear()


class Weights(Protocol):
    """How weights are stored. has_left: a vector's gradients were sent. secondary: additional shards held."""

    stay_whole: bool

    def adopt(self, vector: FlatParameters) -> None: ...
    def all_gather_params(self) -> Works: ...
    def gathered(self) -> AbstractContextManager[None]: ...
    def secondary(self) -> list[Tensor]: ...
    def before_forward(self, reducer: Reducer) -> None: ...
    def has_left(self, number: int) -> None: ...
    def backward_ended(self) -> None: ...
    def forget_backward(self) -> None: ...


class InBackward:
    """Full gradients exist only while their bucket is in flight. Those of several backwards accumulate in shards.

    dtype: of the shards; use torch.float32 for long sums.
    """

    def __init__(self, reducer: Reducer, weights: Weights, *, dtype: torch.dtype | None) -> None:
        self.reducer, self._weights, self._dtype = reducer, weights, dtype
        self.buckets = [Bucket(vector.parameters, multiple_of=len(vector.lengths)) for vector in reducer.vectors]
        self.bucket_of = {p: bucket for bucket in self.buckets for p in bucket.parameters}
        self._shards: list[Tensor | None] = [None] * len(self.buckets)
        self.num_sent = 0  # buckets sent in this backward
        self._is_running = False
        self.has_arrived = False  # a gradient of this backward
        reducer.module.register_forward_pre_hook(self._before_forward)
        reducer.module.register_forward_hook(self._after_forward)
        for parameter in self.bucket_of:
            parameter.register_post_accumulate_grad_hook(self._arrived)

    def _before_forward(self, module: nn.Module, _: Any) -> None:
        if not backward.is_running():
            self.forget_one_that_raised()
            self._weights.before_forward(self.reducer)

    def _after_forward(self, module: nn.Module, _: Any, output: Any) -> None:
        """Call `begin` when a backward of this output starts."""
        if not backward.is_running():
            for tensor in backward.entrances(output):
                tensor.register_hook(self.begin)

    def begin(self, _: Tensor | None = None) -> None:
        """Let `_finish` run at the end of the whole backward, not of a nested backward run by recomputation."""
        if not self._is_running:
            self._is_running = True
            backward.call_at_its_end(self._finish)

    @torch.no_grad()
    def _arrived(self, parameter: Tensor) -> None:
        """Called when a gradient is complete: 1. move it into its bucket  2. send full buckets in order."""
        self.begin()
        self.has_arrived = True
        bucket = self.bucket_of[parameter]  # type: ignore[index]
        if parameter in bucket.waiting:
            bucket.take(parameter)  # type: ignore[arg-type]
        else:
            self.reducer.alarm.complain_of_second(parameter)
        parameter.grad = None
        self.send_full_buckets()

    def send_full_buckets(self) -> None:
        """Send full buckets in the same order on every rank, then wait for all but the newest ones."""
        while self.num_sent < len(self.buckets) and not self.buckets[self.num_sent].waiting:
            bucket, vector = self.buckets[self.num_sent], self.reducer.vectors[self.num_sent]
            self.reducer.alarm.examine(bucket.parameters, bucket.gradients, vector.slice_heads(bucket.flat))
            self.reducer.send(self.num_sent, bucket.flat)
            self._weights.has_left(self.num_sent)
            self.num_sent += 1
            self._receive(leave=MOST_ON_THE_WAY)

    def _receive(self, *, leave: int) -> None:
        """Wait for the oldest buckets, free them, and add the sums to this rank's shards."""
        for number, shard in self.reducer.receive(leave=leave):
            self.buckets[number].free()
            before = self._shards[number]
            self._shards[number] = shard.to(self._dtype or shard.dtype) if before is None else before.add_(shard)

    @torch.no_grad()
    def _finish(self) -> None:
        """At the end of a backward, send the remaining buckets (unused parameters as zeros) and wait for all."""
        if not self.has_arrived:  # torch.autograd.grad leaves the parameters alone
            self._is_running = False
            return
        for bucket in self.buckets:
            for parameter in list(bucket.waiting):
                bucket.take(parameter)
        self.send_full_buckets()
        self._receive(leave=0)
        self._close()
        self._weights.backward_ended()
        self.reducer.alarm.answer(self._shards)

    def _close(self) -> None:
        for bucket in self.buckets:
            bucket.waiting = set(bucket.parameters)
        self.num_sent, self._is_running, self.has_arrived = 0, False, False

    def forget_one_that_raised(self) -> None:
        """Reset after a backward that raised, which leaves half-full buckets."""
        if self._is_running:
            self._forget_backward()

    def _forget_backward(self) -> None:
        self.reducer.forget()
        self._close()
        self._weights.forget_backward()

    def shards(self) -> list[Tensor | None]:
        return self._shards

    def held(self) -> list[Tensor]:
        return [shard for shard in self._shards if shard is not None]

    def forget(self) -> None:
        self._forget_backward()
        self._shards = [None] * len(self._shards)


Gradients = AlreadyReduced | Reducer | InBackward
