"""Buckets: gradients are sent in a few large messages, the first ones while the backward is still running.

PyTorch Distributed, Li et al., VLDB 2020 (2006.15704), section 3.2. The backward finishes the last layer first, so the
buckets are filled from the last parameter to the first. The first bucket is small so that it is sent early.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from shardlab.data_parallel import backward
from shardlab.data_parallel.alarm import Alarm

BUCKET_BYTES = 25 << 20
FIRST_BUCKET_BYTES = 1 << 20


def assign_buckets(
    parameters: Sequence[nn.Parameter],
    *,
    bucket_bytes: int = BUCKET_BYTES,
    first_bucket_bytes: int = FIRST_BUCKET_BYTES,
) -> list[list[nn.Parameter]]:
    """Lists of parameters in the expected order of the backward. Each bucket has a single dtype and device.

    A parameter larger than a bucket gets a separate one. Raises ValueError for a size that is not positive.
    """
    if bucket_bytes < 1 or first_bucket_bytes < 1:
        raise ValueError(f"buckets of {bucket_bytes} and {first_bucket_bytes} bytes hold nothing: use 1 or more")
    buckets: list[list[nn.Parameter]] = []
    filled, limit = 0, first_bucket_bytes
    for parameter in reversed(parameters):
        num_bytes = parameter.numel() * parameter.element_size()
        last = buckets[-1][-1] if buckets else None
        fits = last is not None and filled + num_bytes <= limit
        if last is None or not fits or (last.dtype, last.device) != (parameter.dtype, parameter.device):
            limit = first_bucket_bytes if not buckets else bucket_bytes
            buckets.append([])
            filled = 0
        buckets[-1].append(parameter)
        filled += num_bytes
    return buckets


def in_messages(parameters: Sequence[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Lists of parameters in their given order, none larger than a bucket unless it holds a single large parameter."""
    return assign_buckets(parameters[::-1], first_bucket_bytes=BUCKET_BYTES)


class Bucket:
    """The gradients of some parameters in one flat tensor, and which of them have arrived in this backward."""

    def __init__(self, parameters: Sequence[nn.Parameter], *, length: int | None = None, scale: float = 1.0) -> None:
        """length: of the flat tensor, whose end is padding. It is never empty, even if all parameters are.

        scale: factor applied to gradients while they are copied in, which saves a separate pass.
        """
        self.parameters, self.scale = list(parameters), scale
        self._num_elements = sum(parameter.numel() for parameter in parameters)
        self._length = max(self._num_elements, 1) if length is None else length
        self.waiting = set(self.parameters)
        self._shapes = [parameter.shape for parameter in parameters]
        self._kind = {"dtype": gradient_dtype(parameters[0]), "device": parameters[0].device}
        self._flat: Tensor | None = None
        self._views: dict[nn.Parameter, Tensor] = {}

    @property
    def flat(self) -> Tensor:
        """The flat tensor, allocated when the first gradient arrives."""
        if self._flat is None:
            self._flat = torch.empty(self._length, **self._kind)
            self._flat[self._num_elements :].zero_()
            self._views = dict(zip(self.parameters, split_as(self._flat, self._shapes), strict=True))
        return self._flat

    @property
    def gradients(self) -> list[Tensor]:
        """The parameters' places in the flat tensor."""
        return list(self._views.values())

    def take(self, parameter: nn.Parameter) -> None:
        """Move a gradient into the flat tensor. `parameter.grad` then becomes a view of it."""
        _ = self.flat
        view = self._views[parameter]
        if parameter.grad is None:
            view.zero_()
        elif parameter.grad.data_ptr() != view.data_ptr():
            torch.mul(parameter.grad, self.scale, out=view)
        elif self.scale != 1:
            view.mul_(self.scale)
        parameter.grad = view
        self.waiting.discard(parameter)

    def free(self) -> None:
        """Drop the flat tensor and the gradients in it."""
        for parameter in self.parameters:
            parameter.grad = None
        self._flat, self._views = None, {}


class Arrivals:
    """Moves the gradients of a backward into buckets, and sends full buckets in the same order on every rank.

    send: starts to send the bucket with this number. finish: called at the end of the whole backward, not of a nested
    backward run by recomputation, if a gradient has arrived (`torch.autograd.grad` leaves the parameters alone). is_on:
    while False, gradients stay where autograd puts them.
    """

    def __init__(
        self, buckets: Sequence[Bucket], alarm: Alarm, *, send: Callable[[int], None], finish: Callable[[], None]
    ) -> None:
        self.buckets, self._alarm, self._send, self._finish = buckets, alarm, send, finish
        self.bucket_of = {parameter: bucket for bucket in buckets for parameter in bucket.parameters}
        self.num_sent = 0  # buckets sent in this backward
        self.is_on, self.is_running, self.has_arrived = True, False, False
        for parameter in self.bucket_of:
            parameter.register_post_accumulate_grad_hook(self._arrive)

    def watch(self, output: Any) -> None:
        """Call `begin` when a backward of this output starts."""
        for tensor in backward.entrances(output):
            tensor.register_hook(self.begin)

    def begin(self, _: Tensor | None = None) -> None:
        """Let `finish` run at the end of the current backward."""
        if self.is_on and not self.is_running:
            self.is_running = True
            backward.call_at_its_end(self._end)

    @torch.no_grad()
    def _arrive(self, parameter: Tensor) -> None:
        """Called when a gradient is complete: 1. prepare the end of the backward  2. take it  3. send full buckets."""
        if not self.is_on:
            return
        self.begin()
        self.has_arrived = True
        bucket = self.bucket_of[parameter]  # type: ignore[index]
        if parameter not in bucket.waiting:
            self._alarm.complain_of_second(parameter)
            return
        bucket.take(parameter)  # type: ignore[arg-type]
        self.send_full()

    def send_full(self) -> None:
        """Send full buckets in a fixed order, because collective calls carry no name."""
        while self.num_sent < len(self.buckets) and not self.buckets[self.num_sent].waiting:
            self._send(self.num_sent)
            self.num_sent += 1

    def send_rest(self) -> None:
        """Send the remaining buckets, with zeros for parameters without a gradient."""
        for bucket in self.buckets:
            for parameter in list(bucket.waiting):
                bucket.take(parameter)
            self.send_full()

    def _end(self) -> None:
        if self.has_arrived:
            self._finish()
        self.is_running = False

    def close(self) -> None:
        """Get ready for another backward, also after one that raised."""
        self.num_sent, self.is_running, self.has_arrived = 0, False, False
        for bucket in self.buckets:
            bucket.waiting = set(bucket.parameters)


def gradient_dtype(parameter: nn.Parameter) -> torch.dtype:
    """The dtype in which a parameter's gradients are accumulated: its own, unless `grad_dtype` is set."""
    return parameter.grad_dtype or parameter.dtype


def split_as(flat: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Consecutive views of a flat tensor with these shapes. The rest is padding."""
    views, at = [], 0
    for shape in shapes:
        views.append(flat[at : at + shape.numel()].view(shape))
        at += shape.numel()
    return views
