"""All ranks on one GPU: NCCL's all-reduce with and without MPS (a share of the GPU per rank), compared with gloo's."""

from __future__ import annotations

from statistics import median
from unittest.mock import patch

import shardlab
import torch
import torch.distributed as dist
from shardlab.ranks import mps

from benchmarks.row import Row, at_least_times

ROUNDS = 10
SIZES = {"2 KB": 2**11, "128 MB": 2**27}


def all_reduces(size: int) -> list[float]:
    """Return the seconds of each all-reduce of `size` bytes on this rank, from a common start until the GPU is done."""
    tensor = torch.ones(size // 4, device="cuda")
    times = []
    for _ in range(ROUNDS + 3):
        dist.barrier()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        dist.all_reduce(tensor)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return times[3:]


def seconds(size: int, ranks: int) -> float:
    """Return the median over rounds of the slowest rank."""
    by_rank = shardlab.run(all_reduces, size, ranks=ranks, transport="nccl-shared", observe=False, timeout=120)
    return median(map(max, zip(*by_rank, strict=True)))


def measure() -> list[Row]:
    """Return rows by number of ranks and size; the peer's ranks take turns on the GPU, as processes do without MPS."""
    rows = []
    for ranks in (2, 4, 8):
        for name, size in SIZES.items():
            ours = seconds(size, ranks)
            with patch.object(mps, "environment", lambda num_ranks: {}):
                turns = seconds(size, ranks)
            rows.append(at_least_times(f"all-reduce of {name}, {ranks} ranks on one GPU with MPS, s", ours, turns, 1.0))
    return rows
