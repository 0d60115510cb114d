"""ZeRO++ (2306.10209): ZeRO-3 with less to send, paid with precision (qwZ, qgZ) or memory (hpZ).

| | what travels | instead of |
|---|---|---|
| qwZ | weights of 8 bits in blocks | weights as they are |
| hpZ | the backward's gather stays within a node | across all nodes |
| qgZ | gradients of 8 bits in one all-to-all | a reduce-scatter |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.memory_states import shard_elements
from shardlab.data_parallel.flat import FlatParameters
from shardlab.data_parallel.gathered import PlainGather
from shardlab.data_parallel.quantized import as_message, dequantize, from_bytes
from shardlab.data_parallel.reducing import reduce_plain
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.zero3 import Zero3


def ZeroPlusPlus(
    module: nn.Module,
    optimizer_class: type[torch.optim.Optimizer],
    *,
    quantized_weights: bool = False,
    quantized_gradients: bool = False,
    node: dist.ProcessGroup | None = None,
    **options: Any,
) -> ShardedOptimizer:
    """As `Zero3`, with quantized_weights (qwZ), node (hpZ: the ranks of this machine) or quantized_gradients (qgZ).

    Bytes: costs.zero_plus_plus.plus_bytes. In qgZ gradients are rounded once, and summed in float32 by their owner.
    """
    new_gather = QuantizedGather if quantized_weights else PlainGather
    if node is not None:
        new_gather = partial(NodeGather, node, new_gather)
    reduce = reduce_quantized if quantized_gradients else reduce_plain
    return Zero3(module, optimizer_class, new_gather=new_gather, reduce=reduce, **options)


class QuantizedGather:
    """All ranks send their shards in 8 bits; the messages are turned into numbers when they are waited for."""

    kept: Tensor | None = None

    @torch.no_grad()
    def start(self, vector: FlatParameters, allocate: Callable[[], None], *, alarm: bool) -> Callable[[], Any]:
        mine = as_message(torch.full_like(vector.shard, torch.nan) if alarm else vector.shard)
        messages = mine.new_empty(len(vector.lengths) * mine.numel())
        work = dist.all_gather_single(messages, mine, group=vector.group, async_op=True)

        @torch.no_grad()
        def finish() -> None:
            assert work is not None
            work.wait()
            allocate()
            for message, part in zip(
                messages.chunk(len(vector.lengths)), vector.full.split(vector.lengths), strict=True
            ):
                part.copy_(dequantize(from_bytes(message), vector.shard_elements))

        return finish


class NodeGather:
    """The first gather of a step asks all ranks, the others only the ranks of the own node.

    kept: this rank's part of the whole vector, the secondary shard: 1/(ranks of a node) of the weights more memory.
    """

    def __init__(self, node: dist.ProcessGroup, new_gather: Callable[[], PlainGather | QuantizedGather]) -> None:
        self._node, self._from_all = node, new_gather()
        self.kept: Tensor | None = None

    @torch.no_grad()
    def start(self, vector: FlatParameters, allocate: Callable[[], None], *, alarm: bool) -> Callable[[], Any]:
        if self.kept is None:
            finish = self._from_all.start(vector, allocate, alarm=alarm)
            return lambda: (finish(), self._keep(vector.full))
        allocate()
        mine = torch.full_like(self.kept, torch.nan) if alarm else self.kept
        parts = mine.new_empty(dist.get_world_size(self._node) * mine.numel())
        dist.all_gather_single(parts, mine, group=self._node)
        vector.full.copy_(parts[: vector.full.numel()])
        return lambda: None

    @torch.no_grad()
    def _keep(self, full: Tensor) -> None:
        rank, size = dist.get_rank(self._node), dist.get_world_size(self._node)
        part, padding = shard_elements(full.numel(), size)
        self.kept = nn.functional.pad(full, (0, padding))[rank * part : (rank + 1) * part].clone()


def reduce_quantized(vector: FlatParameters, full: Tensor) -> tuple[list[dist.Work], Tensor]:
    """qgZ: each rank gets its slice of all others' gradients in 8 bits and adds them up: one hop, one rounding."""
    outgoing = torch.stack([as_message(part) for part in full.split(vector.lengths)])
    arriving = torch.empty_like(outgoing)
    dist.all_to_all_single(arriving.view(-1), outgoing.view(-1), group=vector.group)
    total = sum(dequantize(from_bytes(message), vector.shard_elements) for message in arriving)
    assert isinstance(total, Tensor)
    return [], total.to(full.dtype)
