"""Race our data parallelism against PyTorch's: same model, batch and ranks, alternating in one process."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from statistics import median

import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.zero import Zero1, Zero3
from shardlab.model.gpt import GPT, GPTConfig, next_token_loss
from torch import Tensor
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from benchmarks.row import Row, at_least_times

CONFIG = GPTConfig(layers=6, hidden=256, heads=8, sequence=64)
BATCH, ROUNDS = 4, 9
Step = Callable[[Tensor, Tensor], float]
Build = Callable[[GPT], Step]


def measure() -> list[Row]:
    """Return medians of alternating steps; a step takes as long as on its slowest rank."""
    rows = []
    for ranks in (2, 4):
        for name, pair in PAIRS.items():
            by_rank = shardlab.run(race, pair, ranks=ranks, timeout=300)
            ours, peer = (
                [max(times) for times in zip(*(one[side] for one in by_rank), strict=True)] for side in (0, 1)
            )
            rows.append(at_least_times(f"{name}, {ranks} ranks, s per step", median(ours), median(peer), 1.0))
    return rows


def race(pair: tuple[Build, Build], config: GPTConfig = CONFIG, device: str = "cpu") -> tuple[list[float], list[float]]:
    """Return the seconds of each step, ours and the peer's; the losses must be equal."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    steps = []
    for build in pair:
        torch.manual_seed(0)
        steps.append(build(GPT(config).to(device)))
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS + 2):
        generator = torch.Generator().manual_seed(97 * number + dist.get_rank())
        tokens, targets = torch.randint(config.vocabulary, (2, BATCH, config.sequence), generator=generator).to(device)
        losses = []
        for side in (0, 1) if number % 2 else (1, 0):
            dist.barrier()
            began = time.perf_counter()
            losses.append(steps[side](tokens, targets))
            if number > 1:  # the first steps allocate
                times[side].append(time.perf_counter() - began)
        if abs(losses[0] - losses[1]) > 1e-4:
            raise RuntimeError(f"the losses of step {number} are {losses}: the two do not train the same model")
    return times


def _step(model, optimizer) -> Step:
    def step(tokens: Tensor, targets: Tensor) -> float:
        loss = next_token_loss(model(tokens), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def our_ddp(model: GPT) -> Step:
    wrapped = DataParallel(model)
    return _step(wrapped, torch.optim.AdamW(wrapped.parameters(), lr=1e-3))


def their_ddp(model: GPT) -> Step:
    wrapped = DistributedDataParallel(model)
    return _step(wrapped, torch.optim.AdamW(model.parameters(), lr=1e-3))


def our_zero1(model: GPT) -> Step:
    return _step(model, Zero1(model, torch.optim.AdamW, lr=1e-3))


def their_zero1(model: GPT) -> Step:
    wrapped = DistributedDataParallel(model)
    return _step(wrapped, ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.AdamW, lr=1e-3))


def our_zero3(model: GPT) -> Step:
    return _step(model, Zero3(model, torch.optim.AdamW, units=list(model.blocks), lr=1e-3))


def their_zero3(model: GPT) -> Step:
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return _step(model, torch.optim.AdamW(model.parameters(), lr=1e-3))


PAIRS = {
    "DDP vs. torch's DDP": (our_ddp, their_ddp),
    "ZeRO-1 vs. ZeroRedundancyOptimizer": (our_zero1, their_zero1),
    "ZeRO-3 vs. FSDP2": (our_zero3, their_zero3),
}
