"""ZeRO-1 (1910.02054, section 5.1): the optimizer's states are cut; gradients are summed to where they are needed.

Where DDP all-reduces, ZeRO-1 reduce-scatters before the step and gathers weights after it: the same bytes, 2(N-1)/N.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel.agreement import copy_from_first, same_on_every_rank, trainable
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer


class Zero1(ShardedOptimizer):
    """A sharded optimizer that averages the gradients itself: module, then `loss.backward()`, `step()`, `zero_grad()`.

    Each rank computes the gradients of its own part of the batch; several backwards before a step add up.
    parameter_groups: groups with options of their own; by default all trainable parameters in one.
    replicas: for hybrid sharding (HSDP), the ranks of other nodes that hold the same slice as this one. The model is
    cut over `group`, a node with fast links; between nodes only slices of gradients travel, 2(R-1)/R of an N-th.
    Raises ValueError on every rank for models that differ or are frozen.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer_class: type[torch.optim.Optimizer],
        *,
        group: dist.ProcessGroup | None = None,
        parameter_groups: list[dict[str, Any]] | None = None,
        replicas: dist.ProcessGroup | None = None,
        **options: Any,
    ) -> None:
        named = trainable(module)
        same_on_every_rank(named, group=group)
        copy_from_first([*module.parameters(), *module.buffers()], group=group)
        if replicas is not None:
            copy_from_first([*module.parameters(), *module.buffers()], group=replicas)
        self.module, self.replicas = module, replicas
        parameters = parameter_groups or [parameter for _, parameter in named]
        super().__init__(parameters, optimizer_class, group=group, **options)

    @torch.no_grad()
    def _shard_gradients(self) -> list[Tensor | None]:
        """The mean of every rank's gradients, of this rank's slices alone."""
        works, shards = [], []
        for unit in self.units:
            shards.append(torch.empty_like(unit.shard))
            works.append(dist.reduce_scatter_single(shards[-1], unit.gradient(), group=self.group, async_op=True))
        for work, shard in zip(works, shards, strict=True):
            if work is not None:
                work.wait()
            self._turn_into_mean(shard)
        return shards

    def _turn_into_mean(self, shard: Tensor) -> None:
        """A slice holds the sum over the group; with replicas, they add theirs."""
        num_ranks = dist.get_world_size(self.group)
        if self.replicas is not None:
            dist.all_reduce(shard, group=self.replicas)
            num_ranks *= dist.get_world_size(self.replicas)
        shard.div_(num_ranks)
