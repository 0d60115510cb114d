"""ZeRO-1 (1910.02054, section 5.1): optimizer states are sharded, and gradients are summed to their owners.

Instead of DDP's all-reduce, ZeRO-1 reduce-scatters before the step and gathers weights after it. The bytes are the
same, 2(N-1)/N.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from shardlab.data_parallel import backward
from shardlab.data_parallel.agreement import copy_from_first, same_on_every_rank, trainable
from shardlab.data_parallel.alarm import Alarm
from shardlab.data_parallel.reducing import Reduce, Reducer, reduce_plain
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer


def Zero1(module: nn.Module, optimizer_class: type[torch.optim.Optimizer], **options: Any) -> ShardedOptimizer:
    """Each rank updates a shard of the weights. Gradients stay whole until the step. options: as in `wrap`."""
    zero, reducer = wrap(module, optimizer_class, **options)
    zero.gradients = reducer
    return zero


def wrap(
    module: nn.Module,
    optimizer_class: type[torch.optim.Optimizer],
    *,
    group: dist.ProcessGroup | None = None,
    parameter_groups: list[dict[str, Any]] | None = None,
    replicas: dist.ProcessGroup | None = None,
    check_finite: bool = True,
    average: bool = True,
    same_buffers: bool = True,
    reduce: Reduce = reduce_plain,
    **options: Any,
) -> tuple[ShardedOptimizer, Reducer]:
    """A sharded optimizer of a module that averages gradients itself. Each rank has its part of the batch.

    Then `loss.backward()`, `step()`, `zero_grad()`; several backwards before a step add up. parameter_groups: groups
    with their own options; by default all trainable parameters in one. replicas: for hybrid sharding (HSDP), the ranks
    of other nodes that hold the same shard as this one, so that only gradient shards are sent between nodes.
    check_finite: False for loss scalers, which rely on infs; trouble is then known to one rank only. average: False
    keeps the sum of all ranks' gradients, if the loss is already divided by all ranks' tokens. same_buffers: in
    training, copy buffers such as BatchNorm's running means from the first rank before each forward, as DDP does (FSDP2
    does not). Raises ValueError on every rank for models that differ or are frozen. Later it raises on every rank if,
    on any rank, the model was changed after it was wrapped or a gradient is not finite.
    """
    named = trainable(module)
    same_on_every_rank(named, group=group)
    groups = [group] if replicas is None else [group, replicas]
    for one in groups:
        copy_from_first([*module.parameters(), *module.buffers()], group=one)
    if same_buffers:
        module.register_forward_pre_hook(partial(_copy_buffers, groups))
    parameters = parameter_groups or [parameter for _, parameter in named]
    zero = ShardedOptimizer(parameters, optimizer_class, group=group, **options)
    zero.module, zero.replicas = module, replicas
    zero.alarm = Alarm({parameter: name for name, parameter in named}, groups, is_on=check_finite)
    reducer = Reducer(module, zero.vectors, zero.alarm, replicas=replicas, average=average, reduce=reduce)
    return zero, reducer


def _copy_buffers(groups: Sequence[dist.ProcessGroup | None], module: nn.Module, _: Any) -> None:
    if module.training and not backward.is_running():
        for group in groups:
            copy_from_first(list(module.buffers()), group=group)
