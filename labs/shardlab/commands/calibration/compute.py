"""Compute rates of one rank: matmuls by size, memory, small operations, layers and Adam.

Everything runs as in a lab: with one thread, on a rank whose calls are recorded. CUDA events measure the time on a GPU,
the CPU's clock otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from shardlab.costs.clock.calibrated import matmul_seconds, products_seconds
from shardlab.model.gpt import GPT, GPTConfig, next_token_loss

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


SIDES = {"cpu": (16, 32, 64, 128, 256, 512, 1024), "cuda": (128, 256, 512, 1024, 2048, 4096, 8192)}
DTYPES = {"cpu": ("float32",), "cuda": ("float32", "bfloat16")}  # that recipes train in on this device
OPERAND_BYTES = {"cpu": (2**14, 2**18, 2**20, 2**22, 2**24, 2**26), "cuda": (2**20, 2**24, 2**26, 2**28, 2**30)}
# layers, hidden, batch: close to the sizes in the labs, but none of them identical to one
PASSES = ((1, 64, 4), (3, 64, 4), (1, 192, 4), (3, 192, 2), (2, 256, 4), (3, 96, 8))
LINEARS = (
    (4, 64, 64),
    (3, 256, 128),
    (6, 320, 256),
    (2, 640, 128),
    (3, 448, 384),
    (2, 384, 512),
)  # layers, width, rows
ADAM_TENSORS = ((1, 2**6), (40, 2**6), (20, 2**14), (8, 2**16), (1, 2**18), (1, 2**20))  # tensors, elements of each


class Alone(NamedTuple):
    """The fields of a Calibration measured on a single rank."""

    matmul: dict[str, dict[int, float]]
    memory: dict[int, float]
    operation: float
    pass_seconds: tuple[float, float, float]
    linear_seconds: tuple[float, float, float]
    adam_seconds: tuple[float, float, float]


def measure_alone(device_type: str) -> Alone:
    """Measure all rates of a single rank; takes a few seconds."""
    torch.set_num_threads(1)
    device = torch.device(device_type)
    matmul = {dtype: matmul_rates(device, getattr(torch, dtype)) for dtype in DTYPES[device.type]}
    return Alone(
        matmul=matmul,
        memory=memory_rates(device),
        operation=operation_seconds(device),
        pass_seconds=pass_constants(device, matmul["float32"]),
        linear_seconds=linear_constants(device, matmul["float32"]),
        adam_seconds=adam_constants(device),
    )


def matmul_rates(device: torch.device, dtype: torch.dtype) -> dict[int, float]:
    """FLOP/s of a square layer's matmuls by side length: forward, input gradient and weight gradient.

    The three read their operands in different orders and differ in speed.
    """
    found = {}
    for side in SIDES[device.type]:
        x, weight, gradient = (torch.randn(side, side, device=device).to(dtype) for _ in range(3))

        def products(x: Tensor = x, weight: Tensor = weight, gradient: Tensor = gradient) -> None:
            torch.mm(x, weight.T)
            torch.mm(gradient, weight)
            torch.mm(gradient.T, x)

        found[side] = 3 * 2 * side**3 / seconds_of(products, device)
    return found


def memory_rates(device: torch.device) -> dict[int, float]:
    """Bytes/s read and written by an addition, by the bytes of one operand: small operands stay in the caches."""
    found = {}
    for num_bytes in OPERAND_BYTES[device.type]:
        left, right = (torch.ones(num_bytes // 4, device=device) for _ in range(2))
        out = torch.empty_like(left)
        seconds = seconds_of(lambda a=left, b=right, c=out: torch.add(a, b, out=c), device, rounds=7)
        found[num_bytes] = 3 * num_bytes / seconds
    return found


def operation_seconds(device: torch.device) -> float:
    """Seconds of an operation with almost no work: Python, the recorder, torch's dispatch and, on a GPU, the launch."""
    small = torch.ones(8, device=device)
    return seconds_of(lambda: small.add_(1.0), device, least=1e-3)


def pass_constants(device: torch.device, rates: dict[int, float]) -> tuple[float, float, float]:
    """Time of a GPT's forward and backward other than matmuls: per pass, per layer and per element of a layer's input.

    Fitted by least squares of the relative error over PASSES; no constant is negative.
    """
    rows, rest = [], []
    for layers, hidden, batch in PASSES:
        config = GPTConfig(layers=layers, hidden=hidden)
        model = GPT(config).to(device)
        tokens = torch.randint(config.vocabulary, (batch, config.sequence), device=device)
        one = training_pass(model, lambda m=model, t=tokens: next_token_loss(m(t), t))
        seconds = seconds_of(one, device, rounds=11)
        numbers = batch * config.sequence * hidden * layers
        products = products_seconds(rates, layers, hidden, config.sequence, config.vocabulary, batch)
        rows.append([part / seconds for part in (1, layers, numbers)])
        rest.append((seconds - products) / seconds)
    once, layer, number = _least_squares(np.array(rows), np.array(rest))
    return once, layer, number


def linear_constants(device: torch.device, rates: dict[int, float]) -> tuple[float, float, float]:
    """Time of linear layers with ReLU other than matmuls: per layer, per input element and per weight."""
    rows, rest = [], []
    for layers, width, samples in LINEARS:
        parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
        model = nn.Sequential(*parts).to(device)
        x = torch.randn(samples, width, device=device, requires_grad=True)
        seconds = seconds_of(training_pass(model, lambda m=model, x=x: m(x).sum()), device, rounds=11)
        products = 3 * layers * matmul_seconds(rates, samples, width, width)
        rows.append([layers * part / seconds for part in (1, samples * width, width * width)])
        rest.append((seconds - products) / seconds)
    layer, number, weight = _least_squares(np.array(rows), np.array(rest))
    return layer, number, weight


def _least_squares(rows: np.ndarray, values: np.ndarray) -> list[float]:
    """Nonnegative coefficients: drops a negative one and fits the others again."""
    kept = list(range(rows.shape[1]))
    while kept:
        found, *_ = np.linalg.lstsq(rows[:, kept], values, rcond=None)
        if (found >= 0).all():
            break
        kept.pop(int(found.argmin()))
    else:
        found = np.zeros(0)
    return [float(found[kept.index(place)]) if place in kept else 0.0 for place in range(rows.shape[1])]


def adam_constants(device: torch.device) -> tuple[float, float, float]:
    """Seconds of AdamW's step: fixed, per tensor and per parameter; least squares of the relative error."""
    rows, ones = [], []
    for tensors, elements in ADAM_TENSORS:
        weights = [torch.nn.Parameter(torch.ones(elements, device=device)) for _ in range(tensors)]
        adam = torch.optim.AdamW(weights)
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        seconds = seconds_of(adam.step, device)
        rows.append([part / seconds for part in (1, tensors, tensors * elements)])
        ones.append(1.0)
    once, tensor, parameter = _least_squares(np.array(rows), np.array(ones))
    return once, tensor, parameter
