"""ZeRO-3 (1910.02054, section 5.3; PyTorch FSDP, 2304.11277): gather a layer's weights, use them, free them.

Forward and backward gather each unit once, and the gradients are reduce-scattered: 3(N-1)/N of the model is sent. To
follow a backward, read `units.py` (weights come and go), `reducing.py` (gradients leave) and `gathered.py` (memory).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from shardlab.data_parallel.gathered import Gather, PlainGather
from shardlab.data_parallel.reducing import InBackward
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.units import GatheredUnits
from shardlab.data_parallel.zero1 import refuse_layout, wrap


def Zero3(
    module: nn.Module,
    optimizer_class: type[torch.optim.Optimizer],
    *,
    units: Sequence[nn.Module],
    prefetch: int = 1,
    reshard_after_forward: bool = True,
    gradient_dtype: torch.dtype | None = None,
    new_gather: Callable[[], Gather] = PlainGather,
    bucket_bytes: int | None = None,
    first_bucket_bytes: int | None = None,
    **options: Any,
) -> ShardedOptimizer:
    """As `Zero2`, but the weights, too, are cut, and gathered unit by unit while they are used.

    units: modules of the model, none inside another; what is in none of them, or in two (a tied weight), is gathered
    for the whole step. Each is a bucket, whatever bucket_bytes says. prefetch: how many units are gathered ahead.
    reshard_after_forward: False keeps the weights for the backward: 2(N-1)/N are sent. Raises ValueError for units that
    are nested or not of this model, and, on every rank, where ranks have used their units in different orders.
    """
    refuse_layout(options)
    weights = GatheredUnits(module, units, prefetch=prefetch, reshard=reshard_after_forward, new_gather=new_gather)
    zero, reducer = wrap(module, optimizer_class, weights=weights, together=weights.together, **options)
    zero.gradients = gradients = InBackward(reducer, weights, dtype=gradient_dtype)
    weights.connect(gradients, zero.group)
    return zero
