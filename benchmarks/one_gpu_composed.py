"""`composed`'s race on ranks that share one GPU (NCCL, MPS): a training step on several axes."""

from __future__ import annotations

from shardlab.model.gpt import GPTConfig

from benchmarks.composed import rows_of
from benchmarks.row import Row

CONFIG = GPTConfig(layers=8, hidden=1024, heads=16, sequence=512, vocabulary=8192, tied=False, rope=True)


def measure() -> list[Row]:
    """Race against FSDP2, DTensor and torch's pipelining, in float32."""
    return rows_of(CONFIG, "cuda", "nccl-shared")
