"""When gradients are reduced: at the step (ZeRO-1), or bucket by bucket in the backward (ZeRO-2 and 3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel import backward
from shardlab.data_parallel.agreement import Snapshot
from shardlab.data_parallel.alarm import Alarm
from shardlab.data_parallel.buckets import Bucket, split_as
from shardlab.data_parallel.flat import FlatParameters

MOST_ON_THE_WAY = 2  # buckets whose full gradients are held at a time, besides the one that is being filled
Reduce = Callable[[FlatParameters, Tensor], tuple[list[dist.Work], Tensor]]


def reduce_plain(vector: FlatParameters, full: Tensor) -> tuple[list[dist.Work], Tensor]:
    """Start to sum a vector of gradients as it is."""
    return vector.layout.reduce(vector, full)


class Reducer:
    """Sums vectors of gradients to their owners, and raises the alarm on every rank.

    replicas: ranks that hold the same slices and add theirs. average: the mean instead of the sum.
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
        self.module, self.vectors, self.alarm, self.start = module, vectors, alarm, reduce
        self._replicas, self._average = replicas, average
        self._snapshot = Snapshot(module)
        self._homes = {parameter: vector.full for vector in vectors for parameter in vector.parameters}

    def finish(self, works: list[dist.Work], shard: Tensor) -> Tensor:
        """Wait for a sum over the group; with replicas, add theirs."""
        for work in works:
            work.wait()
        num_ranks = dist.get_world_size(self.vectors[0].group)
        if self._replicas is not None:
            dist.all_reduce(shard, group=self._replicas)
            num_ranks *= dist.get_world_size(self._replicas)
        return shard.div_(num_ranks) if self._average else shard

    def reduce_all(self, flats: Iterable[Tensor]) -> list[Tensor]:
        """This rank's slice of each vector; one is laid end to end while another is on its way."""
        shards: list[Tensor] = []
        on_the_way: tuple[list[dist.Work], Tensor] | None = None
        for flat, vector in zip(flats, self.vectors, strict=True):
            shards += [] if on_the_way is None else [self.finish(*on_the_way)]
            on_the_way = self.start(vector, flat)
        return shards if on_the_way is None else [*shards, self.finish(*on_the_way)]

    def change(self) -> str | None:
        """In words, what has become of the model since it was wrapped."""
        return self._snapshot.change(self._homes)

    @torch.no_grad()
    def raise_alarm(self, change: str | None) -> None:
        """Send NaN in place of the gradients that the other ranks wait for, then raise with them."""
        self.alarm.complaints += [] if change is None else [change]
        arrived = self.reduce_all(vector.nan_filled() for vector in self.vectors) if self.alarm.is_on else []
        self.alarm.answer(arrived)


class AlreadyReduced:
    """The gradients are the same on every rank, as after DDP.

    Methods of all three sources of gradients: `shards` gives this rank's slice of each vector at the step; `held` is
    kept besides the parameters' own gradients; `forget` drops it, and what a backward that raised has left half done.
    """

    def __init__(self, vectors: Sequence[FlatParameters]) -> None:
        self._vectors = vectors

    def shards(self) -> list[Tensor]:
        return [vector.own_slice(vector.gradient()) for vector in self._vectors]

    def held(self) -> list[Tensor]:
        return []

    def forget(self) -> None: ...


class AtStep:
    """Each vector of gradients is laid end to end at the step, when it is about to leave."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer

    @torch.no_grad()
    def shards(self) -> list[Tensor]:
        if change := self._reducer.change():
            self._reducer.raise_alarm(change)
        shards = self._reducer.reduce_all(self._outgoing())
        self._reducer.alarm.answer(shards)
        return shards

    def _outgoing(self) -> Iterator[Tensor]:
        for vector in self._reducer.vectors:
            flat = vector.gradient()
            self._reducer.alarm.examine(vector.parameters, split_as(flat, vector.shapes), vector.heads(flat))
            yield flat

    def held(self) -> list[Tensor]:
        return []

    def forget(self) -> None: ...


class Watcher(Protocol):
    """Where weights live: it follows forwards and backwards. has_left: the gradients of a vector are on their way."""

    def before_forward(self, reducer: Reducer) -> None: ...
    def has_left(self, number: int) -> None: ...
    def backward_ended(self) -> None: ...
    def forget_backward(self) -> None: ...


class InBackward:
    """Full gradients live only as long as their bucket is on its way; those of several backwards add up in slices.

    dtype: of the slices, torch.float32 for long sums.
    """

    def __init__(self, reducer: Reducer, watcher: Watcher, *, dtype: torch.dtype | None) -> None:
        self.reducer, self._watcher, self._dtype = reducer, watcher, dtype
        vectors = reducer.vectors
        self.buckets = [Bucket(vector.parameters, multiple_of=len(vector.lengths)) for vector in vectors]
        self.slices: list[Tensor | None] = [None] * len(vectors)
        self.bucket_of = {p: bucket for bucket in self.buckets for p in bucket.parameters}
        self._on_the_way: deque[tuple[int, list[dist.Work], Tensor]] = deque()
        self.num_sent = 0  # buckets that have left in this backward
        self._is_running = False
        self.has_arrived = False  # a gradient of this backward
        reducer.module.register_forward_pre_hook(self._before_all)
        reducer.module.register_forward_hook(self._after_all)
        for parameter in self.bucket_of:
            parameter.register_post_accumulate_grad_hook(self._arrived)

    def _before_all(self, module: nn.Module, _: Any) -> None:
        if not backward.is_running():
            self.forget_one_that_raised()
            self._watcher.before_forward(self.reducer)

    def _after_all(self, module: nn.Module, _: Any, output: Any) -> None:
        """A backward of this output begins with it."""
        if not backward.is_running():
            for tensor in backward.entrances(output):
                tensor.register_hook(self.begin)

    def begin(self, _: Tensor | None = None) -> None:
        """`_finish` runs at the end of the whole backward, not of one that recomputation runs inside it."""
        if not self._is_running:
            self._is_running = True
            backward.call_at_its_end(self._finish)

    @torch.no_grad()
    def _arrived(self, parameter: Tensor) -> None:
        """A gradient is complete: 1. move it into its bucket  2. send the buckets that are full, in order."""
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
        """In the same order on every rank; then wait for all but the newest."""
        while self.num_sent < len(self.buckets) and not self.buckets[self.num_sent].waiting:
            bucket, vector = self.buckets[self.num_sent], self.reducer.vectors[self.num_sent]
            self.reducer.alarm.examine(bucket.parameters, bucket.gradients, vector.heads(bucket.flat))
            self._on_the_way.append((self.num_sent, *self.reducer.start(vector, bucket.flat)))
            self._watcher.has_left(self.num_sent)
            self.num_sent += 1
            self._receive(leave=MOST_ON_THE_WAY)

    def _receive(self, *, leave: int) -> None:
        """Wait for the oldest buckets, free them, and add the sums to this rank's slices."""
        while len(self._on_the_way) > leave:
            number, works, shard = self._on_the_way.popleft()
            self.reducer.finish(works, shard)
            self.buckets[number].free()
            shard = shard if self._dtype is None else shard.to(self._dtype)
            before = self.slices[number]
            self.slices[number] = shard if before is None else before.add_(shard)

    @torch.no_grad()
    def _finish(self) -> None:
        """At the end of a backward: send what is left, unused parameters as zeros, and wait for all."""
        if not self.has_arrived:  # torch.autograd.grad leaves the parameters alone
            self._is_running = False
            return
        for bucket in self.buckets:
            for parameter in list(bucket.waiting):
                bucket.take(parameter)
        self.send_full_buckets()
        self._receive(leave=0)
        self._close()
        self._watcher.backward_ended()
        self.reducer.alarm.answer(self.slices)

    def forget_one_that_raised(self) -> None:
        if self._is_running:
            self._forget_backward()

    def _forget_backward(self) -> None:
        self.reducer.alarm.forget()
        self._close()
        self._watcher.forget_backward()

    def _close(self) -> None:
        self._on_the_way.clear()
        for bucket in self.buckets:
            bucket.waiting = set(bucket.parameters)
        self.num_sent, self._is_running, self.has_arrived = 0, False, False

    def shards(self) -> list[Tensor | None]:
        return self.slices

    def held(self) -> list[Tensor]:
        return [shard for shard in self.slices if shard is not None]

    def forget(self) -> None:
        self._forget_backward()
        self.slices = [None] * len(self.slices)


Gradients = AlreadyReduced | AtStep | InBackward
