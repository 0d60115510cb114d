"""`long_context`'s race on two ranks that share one GPU (NCCL, MPS): attention over a split sequence, in bfloat16."""

from __future__ import annotations

import torch

from benchmarks.long_context import Shape, rows_of
from benchmarks.row import Row

SHAPE = Shape("cuda", heads=16, width=128, dtype=torch.bfloat16, tolerance=0.05)
ROUNDS: dict[int, int] = dict.fromkeys((1024, 2048, 4096, 8192, 16384, 65536), 15)


def measure() -> list[Row]:
    """Race against torch's ring and Ulysses, with FlashAttention-2's kernel for all of them."""
    return rows_of(SHAPE, "nccl-shared", ROUNDS)
