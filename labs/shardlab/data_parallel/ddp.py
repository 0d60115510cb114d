"""Distributed data parallel (数据并行): the same weights everywhere, and the mean of all gradients before each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from shardlab.data_parallel import backward
from shardlab.data_parallel.agreement import Snapshot, copy_from_first, same_on_every_rank, trainable
from shardlab.data_parallel.alarm import Alarm
from shardlab.data_parallel.buckets import BUCKET_BYTES, FIRST_BUCKET_BYTES, Arrivals, Bucket, assign_buckets

Reduce = Callable[[Bucket, dist.ProcessGroup | None], Callable[[], None]]


class DataParallel(nn.Module):
    """A module whose gradients, after `backward`, are the mean over the ranks of `group`.

    module: the same on every rank; its weights and buffers become those of the group's first rank. A bucket is sent as
    soon as its gradients have arrived, while the backward continues. reduce: how a bucket is averaged,
    `mean_by_all_reduce` or one from `compression`. unused_parameters: a rank may leave parameters unused, which costs a
    byte per parameter each step. check_finite: False for loss scalers, which rely on infs; trouble is then known to one
    rank only. Raises ValueError on every rank for models that differ or are frozen. Later it raises on every rank if,
    on any rank, the model was changed after it was wrapped, a gradient is not finite, or a parameter got no gradient.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        group: dist.ProcessGroup | None = None,
        bucket_bytes: int = BUCKET_BYTES,
        first_bucket_bytes: int = FIRST_BUCKET_BYTES,
        unused_parameters: bool = False,
        reduce: Reduce | None = None,
        check_finite: bool = True,
    ) -> None:
        super().__init__()
        self.module, self.group, self.unused_parameters = module, group, unused_parameters
        named = trainable(module)
        same_on_every_rank(named, group=group)
        copy_from_first([*module.parameters(), *module.buffers()], group=group)
        self._names = {parameter: name for name, parameter in named}
        self._snapshot = Snapshot(module)
        self.alarm = Alarm(self._names, [group], is_on=check_finite)
        sizes = {"bucket_bytes": bucket_bytes, "first_bucket_bytes": first_bucket_bytes}
        scale = 1 / dist.get_world_size(group) if reduce is None else 1.0
        self.buckets = [Bucket(some, scale=scale) for some in assign_buckets(list(self._names), **sizes)]
        self._reduce = reduce or mean_by_all_reduce
        self._sent: list[Callable[[], None]] = []  # for each bucket in flight, a function that waits for it
        self._awaits_backward = False
        self._arrivals = Arrivals(self.buckets, self.alarm, send=self._send, finish=self.finish)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module. In training, first copy buffers such as running means from the first rank."""
        if backward.is_running():  # a recomputation: everything is already set up
            return self.module(*args, **kwargs)
        self._forget_backward()  # a backward that raised leaves half-full buckets
        self._awaits_backward = self._arrivals.is_on and torch.is_grad_enabled()
        if self.training and self._arrivals.is_on:
            copy_from_first(list(self.module.buffers()), group=self.group)
        if self._awaits_backward and (change := self._snapshot.change()):
            self._raise_alarm(change)
        output = self.module(*args, **kwargs)
        self._arrivals.watch(output)
        return output

    @torch.no_grad()
    def _raise_alarm(self, change: str) -> None:
        """Send NaN instead of the gradients that other ranks are waiting for, then raise on all ranks."""
        self.alarm.complaints.append(change)
        if self.alarm.is_on:
            for bucket in self.buckets:
                bucket.flat.fill_(torch.nan)
            for wait in [self._reduce(bucket, self.group) for bucket in self.buckets]:
                wait()
        self.alarm.answer(bucket.flat for bucket in self.buckets)

    def reduce_gradients(self) -> None:
        """Reduce the gradients that backwards inside `no_sync` have accumulated, once per step, bucket by bucket.

        The hooks did nothing in those backwards, so this runs a backward of zeros that calls each hook once.
        """
        uses = [parameter.view_as(parameter) for parameter in self._names]
        torch.autograd.backward(uses, [torch.zeros_like(use) for use in uses])

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are only accumulated locally. Use it for all microbatches of a step except the last."""
        before, self._arrivals.is_on = self._arrivals.is_on, False
        try:
            yield
        finally:
            self._arrivals.is_on = before

    def _send(self, number: int) -> None:
        bucket = self.buckets[number]
        self.alarm.examine(bucket.parameters, bucket.gradients, [bucket.flat[:1]])
        self._sent.append(self._reduce(bucket, self.group))

    @torch.no_grad()
    def finish(self) -> None:
        """Wait for all buckets. Runs automatically at the end of each backward; calling it again is harmless.

        A parameter without a gradient in this backward keeps the gradient of earlier backwards, on any rank.
        Raises ValueError on every rank if any rank has a parameter without a gradient or a gradient that is not finite.
        """
        if not self._arrivals.is_running and not (self.unused_parameters and self._awaits_backward):
            return
        self._awaits_backward = False
        missing = {parameter for bucket in self.buckets for parameter in bucket.waiting}
        if missing and not self.unused_parameters:
            first = next(name for parameter, name in self._names.items() if parameter in missing)
            self.alarm.complaints.append(
                f"{first} got no gradient because it took no part in the loss: use it on every rank, "
                "or wrap the model with unused_parameters=True"
            )
        unused = {parameter for parameter in missing if parameter.grad is None}
        self._arrivals.send_rest()
        for wait in self._sent:
            wait()
        self._close_backward()
        self.alarm.answer(bucket.flat for bucket in self.buckets)
        if self.unused_parameters:
            self._drop_unused(unused)

    def _forget_backward(self) -> None:
        """Reset everything that an earlier backward may have left unfinished."""
        self.alarm.forget()
        self._close_backward()

    def _close_backward(self) -> None:
        self._sent = []
        self._arrivals.close()

    def _drop_unused(self, unused: set[nn.Parameter]) -> None:
        """Remove the gradient of parameters that no rank used, as in one process: a zero gradient would decay them."""
        flags = [parameter not in unused for parameter in self._names]
        used = torch.tensor(flags, dtype=torch.uint8, device=self.buckets[0].flat.device)
        dist.all_reduce(used, dist.ReduceOp.MAX, group=self.group)
        for parameter, flag in zip(self._names, used.tolist(), strict=True):
            if not flag:
                parameter.grad = None


def sum_by_all_reduce(bucket: Bucket, group: dist.ProcessGroup | None) -> Callable[[], None]:
    """Like `mean_by_all_reduce`, but the sum, for a loss that is already divided by all ranks' tokens."""
    work = dist.all_reduce(bucket.flat, group=group, async_op=True)

    def wait() -> None:
        assert work is not None
        work.wait()

    return wait


def mean_by_all_reduce(bucket: Bucket, group: dist.ProcessGroup | None) -> Callable[[], None]:
    """Start the all-reduce of a bucket. The returned function waits for it and turns the sum into the mean.

    If the bucket scales by 1/N, the sum is already the mean. Ring bytes sent by a rank: 2(N-1)/N of the bucket
    (costs.traffic.ring_all_reduce_bytes).
    """
    flat = bucket.flat
    work = dist.all_reduce(flat, group=group, async_op=True)

    def wait() -> None:
        assert work is not None
        work.wait()
        if bucket.scale == 1:
            flat.div_(dist.get_world_size(group))

    return wait
