"""How ZeRO encodes its messages: plainly, or as in ZeRO++ (2306.10209), in 8 bits or within a node.

One scale for a whole tensor would let a single large number drown out all others, so each block of 256 has its own
scale (section 3.1). A `Gather` sends this rank's shard of a vector and returns a function that waits for the others. A
`Reduce` starts to sum a vector of gradients and returns what to wait for, and the shard in which the sum will arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.compression import BLOCK, SCALE_BYTES
from shardlab.costs.memory.states import shard_elements
from shardlab.data_parallel.flat import FlatParameters, Gather, GatheredVector, Works

LARGEST = 127
Reduce = Callable[[FlatParameters, Tensor], tuple[Works, Tensor]]


def gather_plain(vector: GatheredVector, mine: Tensor) -> Callable[[], Any]:
    """All ranks send their shards without compression."""
    vector.allocate()
    work: Any = dist.all_gather_single(vector.flat.full, mine, group=vector.flat.group, async_op=True)
    return work.wait


def gather_quantized(vector: GatheredVector, mine: Tensor) -> Callable[[], Any]:
    """All ranks send their shards in 8 bits (qwZ). They are decoded when they have arrived."""
    flat, message = vector.flat, quantize(mine)
    messages = message.new_empty(len(flat.lengths) * message.numel())
    work: Any = dist.all_gather_single(messages, message, group=flat.group, async_op=True)

    def finish() -> None:
        work.wait()
        vector.allocate()
        for one, shard in zip(messages.chunk(len(flat.lengths)), flat.full.split(flat.lengths), strict=True):
            shard.copy_(dequantize(one, flat.shard_elements))

    return finish


def gather_within_node(
    vector: GatheredVector, mine: Tensor, *, node: dist.ProcessGroup, from_all: Gather
) -> Callable[[], Any]:
    """The first gather of a step uses all ranks, later gathers only the ranks of the same node (hpZ).

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


def reduce_plain(vector: FlatParameters, full: Tensor) -> tuple[Works, Tensor]:
    """Sum in the gradients' dtype."""
    return vector.layout.reduce(vector, full)


def reduce_quantized(vector: FlatParameters, full: Tensor) -> tuple[Works, Tensor]:
    """Each rank receives its shard of all ranks' gradients in 8 bits and sums them (qgZ). One hop, one rounding."""
    outgoing = torch.stack([quantize(part) for part in full.split(vector.lengths)])
    arriving = torch.empty_like(outgoing)
    dist.all_to_all_single(arriving.view(-1), outgoing.view(-1), group=vector.group)
    total = torch.zeros(vector.shard_elements, device=full.device)
    for message in arriving:
        total += dequantize(message, vector.shard_elements)
    return [], total.to(full.dtype)


def quantize(values: Tensor) -> Tensor:
    """A message of a flat tensor's codes [blocks, BLOCK] in int8, then their scales [blocks] in float32.

    A value is its code times its block's scale; the error is at most half a scale, 1/254 of the block's largest number.
    A block with an infinite number or NaN gets the scale NaN, and is read as NaN. Bytes:
    costs.compression.quantized_bytes.
    """
    blocks = nn.functional.pad(values.float(), (0, -values.numel() % BLOCK)).view(-1, BLOCK)
    scales = blocks.abs().amax(dim=1) / LARGEST
    scales = scales.where(scales.isfinite(), torch.nan)
    codes = (blocks / scales.clamp(min=torch.finfo(torch.float32).tiny)[:, None]).round().to(torch.int8)
    return torch.cat([codes.view(-1).view(torch.uint8), scales.view(torch.uint8)])


def dequantize(message: Tensor, num_elements: int) -> Tensor:
    """The values as float32, without the padding."""
    blocks = message.numel() // (BLOCK + SCALE_BYTES)
    codes, scales = message.split([blocks * BLOCK, blocks * SCALE_BYTES])
    values = codes.view(torch.int8).view(blocks, BLOCK) * scales.clone().view(torch.float32)[:, None]
    return values.view(-1)[:num_elements]
