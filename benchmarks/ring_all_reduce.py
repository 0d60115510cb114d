"""Race our ring all-reduce, built from sends and receives, against gloo's: 64 MB over 4 ranks."""

from __future__ import annotations

import time
from statistics import median

import shardlab
import torch
import torch.distributed as dist
from shardlab.collectives import ring_all_reduce

from benchmarks.row import Row, at_least_times

RANKS, NUM_BYTES, ROUNDS = 4, 64 << 20, 9


def both() -> list[tuple[float, float]]:
    """Return seconds of (ours, gloo's), alternating, on this rank."""
    tensor = torch.ones(NUM_BYTES // 4)
    group = dist.group.WORLD
    ring_all_reduce(tensor, group=group)  # connections are set up on first use
    dist.all_reduce(tensor.clone())
    seconds = []
    for _ in range(ROUNDS):
        dist.barrier()
        began = time.perf_counter()
        ring_all_reduce(tensor, group=group)
        ours = time.perf_counter() - began
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(tensor)
        seconds.append((ours, time.perf_counter() - began))
    return seconds


def measure() -> list[Row]:
    """Return the slowest rank's seconds in each round, then medians."""
    rounds = list(zip(*shardlab.run(both, ranks=RANKS, transport="gloo", observe=False, timeout=300), strict=True))
    ours = median(max(seconds[0] for seconds in ranks) for ranks in rounds)
    gloos = median(max(seconds[1] for seconds in ranks) for ranks in rounds)
    return [at_least_times("ring all-reduce of 64 MB on 4 ranks vs. gloo's, s", ours, gloos, 0.8)]
