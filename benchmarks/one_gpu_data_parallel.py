"""Race our data parallelism against PyTorch's on ranks that share one GPU (NCCL, MPS)."""

from __future__ import annotations

from statistics import median

import shardlab
from shardlab.model.gpt import GPTConfig

from benchmarks.data_parallel import PAIRS, race
from benchmarks.row import Row, at_least_times

CONFIG = GPTConfig(layers=8, hidden=1024, heads=16, sequence=512)


def measure() -> list[Row]:
    """Return medians of alternating steps on 2 and 4 ranks; a step takes as long as on its slowest rank."""
    rows = []
    for ranks in (2, 4):
        for name, pair in PAIRS.items():
            by_rank = shardlab.run(race, pair, CONFIG, "cuda", ranks=ranks, transport="nccl-shared", timeout=300)
            ours, peer = (
                [max(times) for times in zip(*(one[side] for one in by_rank), strict=True)] for side in (0, 1)
            )
            rows.append(at_least_times(f"{name}, {ranks} ranks, one GPU, s per step", median(ours), median(peer), 1.0))
    return rows
