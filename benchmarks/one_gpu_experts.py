"""`experts`' race on ranks that share one GPU (NCCL, MPS): expert parallelism."""

from __future__ import annotations

from shardlab.model.moe import MoEConfig
from shardlab.model.router import Choice

from benchmarks.experts import Shape, rows_of
from benchmarks.row import Row

SHAPE = Shape(MoEConfig(1024, 1024, Choice(8, 2, renormalise=True)), tokens=4096, hidden=(1024, 4096), device="cuda")


def measure() -> list[Row]:
    """Race on 2 and 4 ranks, in float32: seconds of the slowest."""
    return [row for ranks in (2, 4) for row in rows_of(SHAPE, ranks, "nccl-shared", units=("s on one GPU",))]
