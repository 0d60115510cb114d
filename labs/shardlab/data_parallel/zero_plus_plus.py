"""ZeRO++ (2306.10209): ZeRO-3 with less to send, paid with precision (qwZ, qgZ) or memory (hpZ).

| | what travels | instead of |
|---|---|---|
| qwZ | weights of 8 bits in blocks | weights as they are |
| hpZ | the backward's gather stays within a node | across all nodes |
| qgZ | gradients of 8 bits in one all-to-all | a reduce-scatter |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.memory.states import shard_elements
from shardlab.data_parallel.flat import FlatParameters
from shardlab.data_parallel.gathered import GatheredParameters
from shardlab.data_parallel.quantized import as_message, dequantize, from_bytes
from shardlab.data_parallel.zero3 import Zero3


class PlusParameters(GatheredParameters):
    """Gathered parameters whose forward gather is quantized, and whose backward gather asks only the own node.

    node: the ranks of this machine; after each forward gather every rank of it keeps its part of the whole vector, the
    secondary shard: 1/(ranks of a node) of the weights more memory.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        *,
        quantized: bool,
        node: dist.ProcessGroup | None,
        **options: Any,
    ) -> None:
        self.quantized, self.node = quantized, node
        self.secondary: Tensor | None = None
        self._messages: Tensor | None = None
        super().__init__(parameters, **options)
        self.secondary = None  # the weights were whole until here, and nobody has gathered

    @property
    def kept(self) -> list[Tensor]:
        """The shard, and the secondary one."""
        return super().kept if self.secondary is None else [*super().kept, self.secondary]

    @torch.no_grad()
    def gather(self, *, alarm: bool = False) -> None:
        """From the own node if it has the weights of this step already, else from all ranks."""
        if self.is_there:
            return
        if self.secondary is not None:
            self._gather_within_node(torch.full_like(self.secondary, torch.nan) if alarm else self.secondary)
        elif self.quantized:
            self._gather_quantized(torch.full_like(self.shard, torch.nan) if alarm else self.shard)
        else:
            super().gather(alarm=alarm)

    def _gather_quantized(self, shard: Tensor) -> None:
        self.is_there = True
        mine = as_message(shard)
        self._messages = mine.new_empty(dist.get_world_size(self.group) * mine.numel())
        self._work = dist.all_gather_single(self._messages, mine, group=self.group, async_op=True)

    def _gather_within_node(self, secondary: Tensor) -> None:
        self.is_there = True
        self.full.untyped_storage().resize_(self._full_bytes)
        parts = secondary.new_empty(dist.get_world_size(self.node) * secondary.numel())
        dist.all_gather_single(parts, secondary, group=self.node)
        self.full.copy_(parts[: self.full.numel()])

    @torch.no_grad()
    def wait(self) -> None:
        """Return when the weights can be used; a quantized message is turned into numbers here."""
        super().wait()
        if self._messages is not None:
            self.full.untyped_storage().resize_(self._full_bytes)
            for rank, message in enumerate(self._messages.chunk(dist.get_world_size(self.group))):
                numbers = dequantize(from_bytes(message), self.shard_elements)
                self.full[rank * self.shard_elements : (rank + 1) * self.shard_elements] = numbers
            self._messages = None
        if self.node is not None and self.secondary is None and self.is_there:
            self.secondary = self._own_part_of_node()

    def _own_part_of_node(self) -> Tensor:
        rank, size = dist.get_rank(self.node), dist.get_world_size(self.node)
        part, padding = shard_elements(self.full.numel(), size)
        return torch.nn.functional.pad(self.full, (0, padding))[rank * part : (rank + 1) * part].clone()

    def spread(self) -> list[dist.Work]:
        """After a step: the secondary shard is of the old weights."""
        self.secondary = None
        return super().spread()


class ZeroPlusPlus(Zero3):
    """As `Zero3`, with quantized_weights (qwZ), node (hpZ: the ranks of this machine) or quantized_gradients (qgZ).

    Bytes: costs.compression.plus_bytes. In qgZ gradients are rounded once, and summed in float32 by their owner.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer_class: type[torch.optim.Optimizer],
        *,
        quantized_weights: bool = False,
        quantized_gradients: bool = False,
        node: dist.ProcessGroup | None = None,
        **options: Any,
    ) -> None:
        self.quantized_weights, self.node = quantized_weights, node
        self.quantized_gradients = quantized_gradients
        super().__init__(module, optimizer_class, **options)

    def _lay_out(self, parameters: list[nn.Parameter]) -> FlatParameters:
        return PlusParameters(
            parameters, group=self.group, quantized=self.quantized_weights, node=self.node, **self._vector_options
        )

    def _reduce(self, flat: Tensor, vector: FlatParameters) -> tuple[list[dist.Work], Tensor]:
        """qgZ: each rank gets its slice of all others' gradients in 8 bits and adds them up: one hop, one rounding."""
        if not self.quantized_gradients:
            return super()._reduce(flat, vector)
        outgoing = torch.stack([as_message(piece) for piece in flat.view(-1, vector.shard_elements)])
        arriving = torch.empty_like(outgoing)
        dist.all_to_all_single(arriving.view(-1), outgoing.view(-1), group=self.group)
        total = sum(dequantize(from_bytes(message), vector.shard_elements) for message in arriving)
        assert isinstance(total, Tensor)
        return [], total.to(flat.dtype)
