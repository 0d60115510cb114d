"""Timing on a device: CUDA events on a GPU, the CPU's clock otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn

WARM_UP = 3


def seconds_of(function: Callable[[], object], device: torch.device, *, rounds: int = 9, least: float = 1e-4) -> float:
    """The median of `rounds`, each with enough calls to last `least` seconds, after a warm-up."""
    for _ in range(WARM_UP):
        function()
    once = _timed(function, device, 1)
    calls = max(1, min(1000, round(least / max(once, 1e-7))))
    return median(_timed(function, device, calls) / calls for _ in range(rounds))


def _timed(function: Callable[[], object], device: torch.device, calls: int) -> float:
    if device.type == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        begin.record()
        for _ in range(calls):
            function()
        end.record()
        torch.cuda.synchronize(device)
        return begin.elapsed_time(end) / 1e3
    began = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - began


def training_pass(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """A forward and backward pass of one step that first resets the gradients."""

    def one() -> None:
        model.zero_grad()
        loss().backward()

    return one
