"""A step that takes known seconds on any machine: layers that sleep, and a link of a chosen bandwidth.

Ranks that share cores cannot show how communication hides behind compute; ranks that sleep can.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.traffic import ring_all_reduce_bytes
from shardlab.data_parallel.buckets import Bucket
from shardlab.data_parallel.ddp import Reduce, mean_by_all_reduce


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: AsleepLayer) -> Tensor:
        ctx.seconds = layer.backward_seconds
        time.sleep(layer.forward_seconds)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        time.sleep(ctx.seconds)
        return gradients[0], None


class AsleepLayer(nn.Module):
    """Adds the mean of its weights to its input; sleeps in its forward, and before its gradient is there."""

    def __init__(self, num_parameters: int, *, forward_seconds: float, backward_seconds: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_parameters))
        self.forward_seconds, self.backward_seconds = forward_seconds, backward_seconds

    def forward(self, x: Tensor) -> Tensor:
        """x, of any shape, plus the mean of the weights."""
        return _Sleep.apply(x + self.weight.mean(), self)


def over_link(bytes_per_second: float) -> Reduce:
    """A `reduce` for `DataParallel` whose buckets follow one another over a link of this bandwidth.

    A bucket takes 2(N-1)/N of its bytes / bandwidth, or as long as the real all-reduce where that is longer.
    Raises ValueError for a bandwidth that is not positive.
    """
    if bytes_per_second <= 0:
        raise ValueError(f"nothing travels at {bytes_per_second} bytes per second: use more than 0")
    free_at = 0.0

    def reduce(bucket: Bucket, group: dist.ProcessGroup | None) -> Callable[[], None]:
        nonlocal free_at
        num_bytes = bucket.flat.numel() * bucket.flat.element_size()
        seconds = ring_all_reduce_bytes(dist.get_world_size(group), num_bytes) / bytes_per_second
        due = free_at = max(free_at, time.monotonic()) + seconds
        wait = mean_by_all_reduce(bucket, group)

        def wait_for_link() -> None:
            wait()
            time.sleep(max(0.0, due - time.monotonic()))

        return wait_for_link

    return reduce
