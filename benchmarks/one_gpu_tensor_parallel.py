"""`tensor_parallel`'s race on ranks that share one GPU (NCCL, MPS): a block's step under tensor parallelism."""

from __future__ import annotations

from shardlab.model.gpt import GPTConfig

from benchmarks.row import Row
from benchmarks.tensor_parallel import rows_of

CONFIG = GPTConfig(layers=1, hidden=1024, heads=16, sequence=1024, flash=False)


def measure() -> list[Row]:
    """Race on 2 and 4 ranks, in float32."""
    return rows_of(CONFIG, "cuda", "nccl-shared", " on one GPU")
