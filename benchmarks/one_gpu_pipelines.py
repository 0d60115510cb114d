"""Pipelines on four ranks that share one GPU (MPS): bubbles, ours and torch's.

The bubble is 1 - alone / step: `alone` is the time that the slowest rank needs for its microbatches when no rank waits
for another and all ranks work at once.
"""

from __future__ import annotations

import time
from statistics import median

import shardlab
import torch
import torch.distributed as dist
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.schedule import Schedule, num_stages, stages_of_rank
from torch import Tensor, nn

from benchmarks.pipelines import by_torch, by_us
from benchmarks.row import Row, at_most

RANKS, ROUNDS = 4, 6
BLOCKS, WIDTH, ROWS = 16, 4096, 4096  # BLOCKS in the whole model; ROWS per microbatch
COMPARED = ["gpipe", "1f1b", "interleaved", "zbv", "dualpipe-v"]


class Block(nn.Module):
    """x + gelu(W x), in bf16."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        return x + nn.functional.gelu(self.linear(x))


def modules_of(schedule: Schedule, rank: int) -> dict[int, nn.Module]:
    """Return this rank's stages: equal parts of the blocks."""
    each = BLOCKS // num_stages(schedule)
    torch.manual_seed(0)
    return {stage: nn.Sequential(*(Block() for _ in range(each))) for stage in stages_of_rank(schedule, rank)}


def alone(modules: dict[int, nn.Module], batch: Tensor, microbatches: int) -> None:
    """Do the same work without messages: every stage gets its own inputs."""
    for part in batch.chunk(microbatches):
        for module in modules.values():
            module(part.detach().requires_grad_()).square().mean().backward()


def race(name: str, microbatches: int) -> list[tuple[float, float, float]]:
    """Return seconds of (ours, torch's, alone), alternating."""
    rank = dist.get_rank()
    schedule = BUILDERS[name](RANKS, microbatches)
    stages, batch = num_stages(schedule), torch.randn(microbatches * ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    modules = modules_of(schedule, rank)
    steps = (
        by_us(schedule, modules, stages, batch, microbatches=microbatches),
        by_torch(name, modules_of(schedule, rank), stages, batch, microbatches=microbatches),
        lambda: alone(modules, batch, microbatches),
    )
    rounds = []
    for number in range(ROUNDS + 2):
        times = {}
        for turn in range(3):  # vary the order: a GPU is slower just after heavy work
            which = (number + turn) % 3 if number % 2 else (number - turn) % 3
            torch.cuda.synchronize()
            dist.barrier()
            began = time.monotonic()
            steps[which]()
            torch.cuda.synchronize()
            times[which] = time.monotonic() - began
        rounds.append((times[0], times[1], times[2]))
    return rounds[2:]


def bubbles(name: str, microbatches: int) -> tuple[float, float, float]:
    """Return our bubble, torch's, and the milliseconds of our step."""
    by_rank = shardlab.run(race, name, microbatches, ranks=RANKS, transport="nccl-shared", observe=False, timeout=120)
    rounds = [tuple(map(max, zip(*ranks, strict=True))) for ranks in zip(*by_rank, strict=True)]
    ours, theirs, work = (median(seconds) for seconds in zip(*rounds, strict=True))
    return 1 - work / ours, 1 - work / theirs, ours * 1e3


def measure() -> list[Row]:
    """Return bubbles at 8 and 16 microbatches; those of interleaved and DualPipeV are compared with 1F1B's."""
    rows = []
    for microbatches in (8, 16):
        bound = 1.0
        for name in COMPARED:
            ours, theirs, milliseconds = bubbles(name, microbatches)
            bound = ours if name == "1f1b" else bound
            most = bound if name in ("interleaved", "dualpipe-v") else 1.0
            label = f"{name}, {microbatches} microbatches, step {milliseconds:.0f} ms: bubble on one GPU"
            rows.append(at_most(label, ours, most, theirs))
    return rows
