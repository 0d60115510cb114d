"""ZeRO-1, 2 and 3 (1910.02054, section 5) and ZeRO++ (2306.10209): names that choose the parts of one optimizer.

| | sharded | sent in a step |
|---|---|---|
| ZeRO-1 | optimizer states | gradients reduce-scattered, weights gathered: 2(N-1)/N of the model, as in DDP |
| ZeRO-2 | and gradients | the same, during the backward |
| ZeRO-3 | and weights | gradients once, weights twice: 3(N-1)/N |
| ZeRO++ | as ZeRO-3 | 8-bit weights (qwZ) or gradients (qgZ), the backward's gather within a node (hpZ) |
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from shardlab.data_parallel import backward, messages
from shardlab.data_parallel.agreement import copy_from_first, same_on_every_rank, trainable
from shardlab.data_parallel.alarm import Alarm
from shardlab.data_parallel.buckets import BUCKET_BYTES, FIRST_BUCKET_BYTES, assign_buckets
from shardlab.data_parallel.flat import Gather
from shardlab.data_parallel.reducing import Gradients
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.weights import GatheredUnits, WholeWeights

OptimizerClass = type[torch.optim.Optimizer]


def Zero1(module: nn.Module, optimizer_class: OptimizerClass, **options: Any) -> ShardedOptimizer:
    """Each rank updates a shard of the weights. Gradients stay whole until the step, which sends and frees them.

    options: as in `wrap`.
    """
    return wrap(module, optimizer_class, WholeWeights(), in_backward=False, **options)


def Zero2(
    module: nn.Module,
    optimizer_class: OptimizerClass,
    *,
    bucket_bytes: int = BUCKET_BYTES,
    first_bucket_bytes: int = FIRST_BUCKET_BYTES,
    **options: Any,
) -> ShardedOptimizer:
    """Like `Zero1`, but full gradients exist only while their bucket, a vector with its own shards, is in flight."""
    buckets = partial(assign_buckets, bucket_bytes=bucket_bytes, first_bucket_bytes=first_bucket_bytes)
    return wrap(module, optimizer_class, WholeWeights(), together=buckets, **options)


def Zero3(
    module: nn.Module,
    optimizer_class: OptimizerClass,
    *,
    units: Sequence[nn.Module],
    prefetch: int = 1,
    reshard_after_forward: bool = True,
    gather: Gather = messages.gather_plain,
    **options: Any,
) -> ShardedOptimizer:
    """Like `Zero2`, but the weights are sharded too, and gathered unit by unit for each use. Each unit is a bucket.

    units: modules of the model, none inside another. Parameters in no unit or in two (a tied weight) are gathered for
    the whole step. prefetch: how many units to gather ahead. reshard_after_forward: False keeps the weights for the
    backward, which sends 2(N-1)/N. gather: how weights are sent. Raises ValueError for units that are nested or not
    part of this model, and on every rank if ranks use their units in different orders.
    """
    weights = GatheredUnits(module, units, prefetch=prefetch, reshard=reshard_after_forward, gather=gather)
    zero = wrap(module, optimizer_class, weights, together=weights.together, **options)
    assert isinstance(zero.gradients, Gradients)
    weights.connect(zero.gradients, zero.group)
    return zero


def ZeroPlusPlus(
    module: nn.Module,
    optimizer_class: OptimizerClass,
    *,
    quantized_weights: bool = False,
    quantized_gradients: bool = False,
    node: dist.ProcessGroup | None = None,
    **options: Any,
) -> ShardedOptimizer:
    """Like `Zero3`, with quantized_weights (qwZ), node (hpZ: the ranks of this machine) or quantized_gradients (qgZ).

    Bytes: costs.compression.plus_bytes. In qgZ, gradients are rounded once and summed in float32 by their owner.
    """
    gather = messages.gather_quantized if quantized_weights else messages.gather_plain
    if node is not None:
        gather = partial(messages.gather_within_node, node=node, from_all=gather)
    reduce = messages.reduce_quantized if quantized_gradients else messages.reduce_plain
    return Zero3(module, optimizer_class, gather=gather, reduce=reduce, **options)


def wrap(
    module: nn.Module,
    optimizer_class: OptimizerClass,
    weights: WholeWeights | GatheredUnits,
    *,
    in_backward: bool = True,
    group: dist.ProcessGroup | None = None,
    parameter_groups: list[dict[str, Any]] | None = None,
    replicas: dist.ProcessGroup | None = None,
    check_finite: bool = True,
    average: bool = True,
    same_buffers: bool = True,
    gradient_dtype: torch.dtype | None = None,
    reduce: messages.Reduce = messages.reduce_plain,
    **options: Any,
) -> ShardedOptimizer:
    """A sharded optimizer of a module that averages gradients itself. Each rank has its part of the batch.

    Then `loss.backward()`, `step()`, `zero_grad()`; several backwards before a step add up. parameter_groups: groups
    with their own options; by default all trainable parameters in one. replicas: for hybrid sharding (HSDP), the ranks
    of other nodes that hold the same shard as this one, so that only gradient shards are sent between nodes.
    check_finite: False for loss scalers, which rely on infs; trouble is then known to one rank only. average: False
    keeps the sum of all ranks' gradients, if the loss is already divided by all ranks' tokens. same_buffers: in
    training, copy buffers such as BatchNorm's running means from the first rank before each forward, as DDP does (FSDP2
    does not). gradient_dtype: in which gradients of several backwards accumulate; torch.float32 for long sums. Raises
    ValueError on every rank for models that differ or are frozen. Later it raises on every rank if, on any rank, the
    model was changed after it was wrapped or a gradient is not finite.
    """
    named = trainable(module)
    same_on_every_rank(named, group=group)
    groups = [group] if replicas is None else [group, replicas]
    for one in groups:
        copy_from_first([*module.parameters(), *module.buffers()], group=one)
    if same_buffers:
        module.register_forward_pre_hook(partial(_copy_buffers, groups))
    parameters = parameter_groups or [parameter for _, parameter in named]
    zero = ShardedOptimizer(parameters, optimizer_class, group=group, weights=weights, **options)
    alarm = Alarm({parameter: name for name, parameter in named}, groups, is_on=check_finite)
    zero.module, zero.replicas, zero.alarm = module, replicas, alarm
    kinds = {"replicas": replicas, "average": average, "reduce": reduce, "dtype": gradient_dtype}
    zero.gradients = Gradients(module, zero.vectors, weights, alarm, in_backward=in_backward, **kinds)
    return zero


def _copy_buffers(groups: Sequence[dist.ProcessGroup | None], module: nn.Module, _: Any) -> None:
    if module.training and not backward.is_running():
        for group in groups:
            copy_from_first(list(module.buffers()), group=group)
