"""Data-parallel steps with known timing: layers sleep, and buckets or offloaded gradients use an emulated link."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.traffic import ring_all_reduce_bytes
from shardlab.data_parallel.buckets import Bucket
from shardlab.data_parallel.ddp import Reduce, mean_by_all_reduce
from shardlab.mesh.emulated import EmulatedDevice, EmulatedLink, sleep_until

BF16 = 2  # bytes of a gradient and of a weight on the link to the host


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: EmulatedLayer) -> Tensor:
        ctx.seconds = layer.backward_seconds
        time.sleep(layer.forward_seconds)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        time.sleep(ctx.seconds)
        return gradients[0], None


class EmulatedLayer(nn.Module):
    """Adds the mean of its weights to its input. Sleeps in its forward, and before its gradient is ready."""

    def __init__(self, num_parameters: int, *, forward_seconds: float, backward_seconds: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_parameters))
        self.forward_seconds, self.backward_seconds = forward_seconds, backward_seconds

    def forward(self, x: Tensor) -> Tensor:
        """x, of any shape, plus the mean of the weights."""
        return _Sleep.apply(x + self.weight.mean(), self)


def over_link(bytes_per_second: float) -> Reduce:
    """A `reduce` for `DataParallel` that sends buckets one after another over a link of this bandwidth.

    A bucket takes 2(N-1)/N of its bytes / bandwidth, or as long as the real all-reduce if that is longer.
    Raises ValueError if the bandwidth is not positive.
    """
    link = EmulatedLink(bytes_per_second)

    def reduce(bucket: Bucket, group: dist.ProcessGroup | None) -> Callable[[], None]:
        due = link.send(ring_all_reduce_bytes(dist.get_world_size(group), bucket.flat.nbytes))
        wait = mean_by_all_reduce(bucket, group)

        def wait_for_link() -> None:
            wait()
            sleep_until(due)

        return wait_for_link

    return reduce


def offloaded_step(
    num_parameters: Sequence[int], backward_seconds: Sequence[float], *, link: float, adam: float
) -> float:
    """Run a backward with an offloaded optimizer; returns the seconds until the last new weights are on the GPU.

    The layers come in the order of the backward. Each gradient is sent to the host when it is ready, Adam updates it
    there, and the new weights are sent back while later gradients arrive. Nothing is computed: both sides sleep.
    link: bytes per second in each direction; adam: parameters that the host updates per second.
    """
    gpu, down, arrivals = EmulatedDevice(), EmulatedLink(link), SimpleQueue()
    with ThreadPoolExecutor(1) as host:
        begin = time.monotonic()
        back = host.submit(_update_on_host, arrivals, len(num_parameters), EmulatedLink(link), adam)
        for num, seconds in zip(num_parameters, backward_seconds, strict=True):
            gpu.work(seconds)
            arrivals.put((num, down.send(BF16 * num)))
        sleep_until(back.result())
    return time.monotonic() - begin


def _update_on_host(arrivals: SimpleQueue[tuple[int, float]], num_layers: int, up: EmulatedLink, adam: float) -> float:
    """Update each layer when its gradient has arrived; returns when the last new weights will be on the GPU."""
    host, back = EmulatedDevice(), 0.0
    for _ in range(num_layers):
        num, due = arrivals.get()
        sleep_until(due)
        host.work(num / adam)
        back = up.send(BF16 * num)
    return back
