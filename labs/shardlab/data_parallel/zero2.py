"""ZeRO-2 (1910.02054, section 5.2): each gradient is summed to its owner in the backward and freed everywhere else."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from shardlab.data_parallel.buckets import BUCKET_BYTES, FIRST_BUCKET_BYTES, assign_buckets
from shardlab.data_parallel.gathered import WholeWeights
from shardlab.data_parallel.reducing import InBackward
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.zero1 import wrap


def Zero2(
    module: nn.Module,
    optimizer_class: type[torch.optim.Optimizer],
    *,
    bucket_bytes: int = BUCKET_BYTES,
    first_bucket_bytes: int = FIRST_BUCKET_BYTES,
    gradient_dtype: torch.dtype | None = None,
    **options: Any,
) -> ShardedOptimizer:
    """Like `Zero1`, but full gradients exist only while their bucket, a vector with its own shards, is in flight.

    gradient_dtype: of the shards in which gradients of several backwards accumulate; torch.float32 for long sums.
    """
    weights = WholeWeights()
    buckets = partial(assign_buckets, bucket_bytes=bucket_bytes, first_bucket_bytes=first_bucket_bytes)
    zero, reducer = wrap(module, optimizer_class, weights=weights, together=buckets, **options)
    zero.gradients = InBackward(reducer, weights, dtype=gradient_dtype)
    return zero
