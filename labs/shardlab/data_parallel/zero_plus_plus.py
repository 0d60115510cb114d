"""ZeRO++ (2306.10209): ZeRO-3 with less communication, at the cost of precision (qwZ, qgZ) or memory (hpZ).

| | sent | instead of |
|---|---|---|
| qwZ | 8-bit weights in blocks | full-precision weights |
| hpZ | the backward's gather within a node | across all nodes |
| qgZ | 8-bit gradients in one all-to-all | a reduce-scatter |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.memory.states import shard_elements
from shardlab.data_parallel.flat import FlatParameters, Works
from shardlab.data_parallel.gathered import Gather, GatheredVector, gather_plain
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
    """Like `Zero3`, with quantized_weights (qwZ), node (hpZ: the ranks of this machine) or quantized_gradients (qgZ).

    Bytes: costs.compression.plus_bytes. In qgZ, gradients are rounded once and summed in float32 by their owner.
    """
    gather = gather_quantized if quantized_weights else gather_plain
    if node is not None:
        gather = partial(gather_within_node, node=node, from_all=gather)
    reduce = reduce_quantized if quantized_gradients else reduce_plain
    return Zero3(module, optimizer_class, gather=gather, reduce=reduce, **options)


def gather_quantized(vector: GatheredVector, mine: Tensor) -> Callable[[], Any]:
    """All ranks send their shards in 8 bits. The returned function waits for the messages and decodes them."""
    flat, message = vector.flat, as_message(mine)
    messages = message.new_empty(len(flat.lengths) * message.numel())
    work: Any = dist.all_gather_single(messages, message, group=flat.group, async_op=True)

    def finish() -> None:
        work.wait()
        vector.allocate()
        for one, shard in zip(messages.chunk(len(flat.lengths)), flat.full.split(flat.lengths), strict=True):
            shard.copy_(dequantize(from_bytes(one), flat.shard_elements))

    return finish


def gather_within_node(
    vector: GatheredVector, mine: Tensor, *, node: dist.ProcessGroup, from_all: Gather
) -> Callable[[], Any]:
    """The first gather of a step uses all ranks, later gathers only the ranks of the same node.

    Each rank keeps a secondary shard, its part within the node. The extra memory is 1/(ranks per node) of the weights.
    """
    rank, size, full = dist.get_rank(node), dist.get_world_size(node), vector.flat.full
    part, padding = shard_elements(full.numel(), size)
    if vector.secondary is not None:
        vector.allocate()
        shards = mine.new_empty(size * part)
        dist.all_gather_single(shards, mine, group=node)
        full.copy_(shards[: full.numel()])
        return lambda: None
    finish_from_all = from_all(vector, mine)

    def finish() -> None:
        finish_from_all()
        vector.secondary = nn.functional.pad(full, (0, padding))[rank * part : (rank + 1) * part].clone()

    return finish


def reduce_quantized(vector: FlatParameters, full: Tensor) -> tuple[Works, Tensor]:
    """qgZ: each rank receives its shard of all ranks' gradients in 8 bits and sums them. One hop, one rounding."""
    outgoing = torch.stack([as_message(part) for part in full.split(vector.lengths)])
    arriving = torch.empty_like(outgoing)
    dist.all_to_all_single(arriving.view(-1), outgoing.view(-1), group=vector.group)
    total = sum(dequantize(from_bytes(message), vector.shard_elements) for message in arriving)
    assert isinstance(total, Tensor)
    return [], total.to(full.dtype)
