"""ZeRO-2 (1910.02054, section 5.2): a gradient is summed to its owner in the backward, and freed everywhere else."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel import backward
from shardlab.data_parallel.buckets import BUCKET_BYTES, FIRST_BUCKET_BYTES, Bucket, assign_buckets
from shardlab.data_parallel.zero1 import Zero1

MOST_ON_THE_WAY = 2  # buckets whose full gradients are held at a time, beside the one that is being filled


class Zero2(Zero1):
    """As `Zero1`, but full gradients live only as long as their bucket is on its way.

    What is in a bucket leaves together, so that each bucket is a vector with slices of its own. The gradients of
    several backwards are added up in the slices. gradient_dtype: that of the slices, torch.float32 for long sums.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer_class: type[torch.optim.Optimizer],
        *,
        bucket_bytes: int = BUCKET_BYTES,
        first_bucket_bytes: int = FIRST_BUCKET_BYTES,
        gradient_dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        self._sizes = {"bucket_bytes": bucket_bytes, "first_bucket_bytes": first_bucket_bytes}
        self.gradient_dtype = gradient_dtype
        if "layout" in options:
            raise ValueError("only Zero1 and ShardedOptimizer take a layout: buckets and units are cut in equal slices")
        super().__init__(module, optimizer_class, **options)
        size = dist.get_world_size(self.group)
        self.buckets = [Bucket(vector.parameters, multiple_of=size) for vector in self.vectors]
        self.shard_gradients: list[Tensor | None] = [None] * len(self.vectors)
        self._number_of = {p: number for number, vector in enumerate(self.vectors) for p in vector.parameters}
        self._on_the_way: deque[tuple[int, list[dist.Work], Tensor]] = deque()
        self._num_sent = 0  # buckets that have left in this backward
        self._is_in_backward = False
        self._has_arrived = False  # a gradient of this backward
        module.register_forward_pre_hook(self._before_all)
        module.register_forward_hook(self._after_all)
        for parameter in self._number_of:
            parameter.register_post_accumulate_grad_hook(self._arrived)

    def _by_vector(self, parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
        return assign_buckets(parameters, **self._sizes)

    def _before_all(self, module: nn.Module, _: Any) -> None:
        """A model that was changed cannot send the gradients that other ranks wait for."""
        if backward.is_running():
            return
        if self._is_in_backward:  # one that raised
            self._forget_backward()
        if torch.is_grad_enabled() and (change := self._snapshot.change(self._homes)):
            self._ring(change)

    def _after_all(self, module: nn.Module, _: Any, output: Any) -> None:
        """A backward of this output begins with it."""
        if not backward.is_running():
            for tensor in backward.entrances(output):
                tensor.register_hook(self._begin_backward)

    def _begin_backward(self, _: Tensor | None = None) -> None:
        """`_finish` runs at the end of the whole backward, not of one that recomputation runs inside it."""
        if not self._is_in_backward:
            self._is_in_backward = True
            backward.call_at_its_end(self._finish)

    @torch.no_grad()
    def _arrived(self, parameter: Tensor) -> None:
        """A gradient is complete: 1. move it into its bucket  2. send the buckets that are full, in order."""
        self._begin_backward()
        self._has_arrived = True
        bucket = self.buckets[self._number_of[parameter]]  # type: ignore[index]
        if parameter in bucket.waiting:
            bucket.take(parameter)  # type: ignore[arg-type]
        else:
            self.alarm.complain_of_second(parameter)
        parameter.grad = None
        self._send_full_buckets()

    def _send_full_buckets(self) -> None:
        while self._num_sent < len(self.buckets) and not self.buckets[self._num_sent].waiting:
            bucket, vector = self.buckets[self._num_sent], self.vectors[self._num_sent]
            self.alarm.examine(bucket.parameters, bucket.gradients, vector.heads(bucket.flat))
            self._on_the_way.append((self._num_sent, *self._reduce(bucket.flat, vector)))
            self._has_left(self._num_sent)
            self._num_sent += 1
            self._receive(leave=MOST_ON_THE_WAY)

    def _has_left(self, number: int) -> None:
        """A bucket is on its way; ZeRO-3 now frees the weights, too."""

    def _has_ended(self) -> None:
        """The last gradients of a backward are there; ZeRO-3 now asks whether all ranks gathered the same."""

    def _receive(self, *, leave: int) -> None:
        """Wait for the oldest buckets, free them, and add the means to this rank's slices."""
        while len(self._on_the_way) > leave:
            number, works, shard = self._on_the_way.popleft()
            self._mean(works, shard)
            self.buckets[number].free()
            self._add(number, shard)

    @torch.no_grad()
    def _finish(self) -> None:
        """At the end of a backward: send what is left, unused parameters as zeros, and wait for all."""
        if not self._has_arrived:  # torch.autograd.grad leaves the parameters alone
            self._is_in_backward = False
            return
        for bucket in self.buckets:
            for parameter in list(bucket.waiting):
                bucket.take(parameter)
        self._send_full_buckets()
        self._receive(leave=0)
        self._close_backward()
        self._has_ended()
        self.alarm.answer(self.shard_gradients)

    def _forget_backward(self) -> None:
        self.alarm.forget()
        self._close_backward()

    def _close_backward(self) -> None:
        self._on_the_way.clear()
        for bucket in self.buckets:
            bucket.waiting = set(bucket.parameters)
        self._num_sent, self._is_in_backward, self._has_arrived = 0, False, False

    def _add(self, number: int, shard: Tensor) -> None:
        before = self.shard_gradients[number]
        shard = shard if self.gradient_dtype is None else shard.to(self.gradient_dtype)
        self.shard_gradients[number] = shard if before is None else before.add_(shard)

    def _shard_gradients(self) -> Sequence[Tensor | None]:
        return self.shard_gradients

    def _held_gradients(self) -> list[Tensor]:
        return super()._held_gradients() + [shard for shard in self.shard_gradients if shard is not None]

    def zero_grad(self) -> None:
        """Forget all gradients, and what a backward that raised has left half done."""
        super().zero_grad()
        self._forget_backward()
        self.shard_gradients = [None] * len(self.vectors)
