"""A rank's part of a model in the form that torch's distributed checkpoint (DCP) takes: items to write and to read.

Tensors in the checkpoint are named by kind and global name: "weight.blocks.7.up.weight" or "exp_avg.token.weight".
DCP records the blocks in which each tensor was written, and reads any other blocks from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed.checkpoint.default_planner import create_default_global_save_plan
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import LoadPlan, ReadItem, SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from shardlab.hybrid.pieces import SavedShard


class WholeTensor(NamedTuple):
    """A whole tensor as a checkpoint lists it."""

    shape: tuple[int, ...]
    dtype: str


def name_of(chunk: SavedShard) -> str:
    """The name of a chunk's whole tensor in a checkpoint."""
    return f"{chunk.kind}.{chunk.key}"


def kept(chunks: Sequence[SavedShard]) -> dict[str, WholeTensor]:
    """The whole tensors to which the chunks belong."""
    return {name_of(one): WholeTensor(tuple(one.global_shape), str(one.tensor.dtype)) for one in chunks}


class Writing:
    """Tensors for DCP's writer, by their index."""

    def __init__(self, chunks: Sequence[SavedShard]) -> None:
        self.items = [_write_item(one) for one in chunks]
        self._tensors = {_place(item.index): one.tensor for item, one in zip(self.items, chunks, strict=True)}

    def stage(self) -> Writing:
        """The same items with copies of the current values, which later steps cannot change."""
        staged = Writing([])
        staged.items, staged._tensors = self.items, {at: one.clone() for at, one in self._tensors.items()}
        return staged

    def resolve_data(self, item: WriteItem) -> Tensor:
        """Called by DCP's writer."""
        return self._tensors[_place(item.index)].contiguous()


def joint_plan(items_by_rank: Sequence[list[WriteItem]], rank: int) -> tuple[SavePlan, Metadata]:
    """Rank `rank`'s plan and the list of all tensors, from the items of all ranks; every rank computes the same list.

    Raises ValueError if two ranks write the same block or if blocks are missing.
    """
    _refuse_twice(items_by_rank)
    plans, metadata = create_default_global_save_plan([SavePlan(items) for items in items_by_rank])
    for name, found in metadata.state_dict_metadata.items():
        written = sum(chunk.sizes.numel() for chunk in found.chunks)  # type: ignore[union-attr]
        if written != found.size.numel():  # type: ignore[union-attr]
            raise ValueError(f"{name} has {found.size.numel()} elements, but all ranks together write {written}")  # type: ignore[union-attr]
    return plans[rank], metadata


def _refuse_twice(items_by_rank: Sequence[list[WriteItem]]) -> None:
    writers: dict[tuple[Any, ...], int] = {}
    for rank, items in enumerate(items_by_rank):
        for item in items:
            if (first := writers.setdefault(_place(item.index), rank)) != rank:
                where = f"{item.index.fqn} at offset {list(item.index.offset or ())}"
                raise ValueError(
                    f"rank {first} and rank {rank} both write {where}, so one of them would be lost: number blocks in "
                    "the whole model, not in a pipeline stage"
                )


class Reading:
    """Tensors for DCP's reader, which copies every stored block that they need into them."""

    def __init__(self, chunks: Sequence[SavedShard]) -> None:
        self._tensors: dict[tuple[Any, ...], Tensor] = {}
        self._by_name: dict[str, list[ChunkStorageMetadata]] = {}
        for one in chunks:
            box = _box(one)
            self._tensors[name_of(one), *box.offsets] = one.tensor
            self._by_name.setdefault(name_of(one), []).append(box)

    def plan(self, metadata: Metadata) -> LoadPlan:
        """The items to read; the checkpoint has already been checked to contain all of them."""
        found = metadata.state_dict_metadata
        items = [
            create_read_items_for_chunk_list(name, found[name], boxes)  # type: ignore[arg-type]
            for name, boxes in self._by_name.items()
        ]
        return LoadPlan([item for some in items for item in some])

    def resolve_tensor(self, item: ReadItem) -> Tensor:
        """Called by DCP's reader."""
        whole = self._tensors[_place(item.dest_index)]
        for dim, (offset, length) in enumerate(zip(item.dest_offsets, item.lengths, strict=True)):
            whole = whole.narrow(dim, offset, length)
        return whole

    def commit_tensor(self, item: ReadItem, tensor: Tensor) -> None:
        """Called by DCP's reader after it has copied into the trainer's memory; nothing is left to do."""


def _write_item(chunk: SavedShard) -> WriteItem:
    box = _box(chunk)
    data = TensorWriteData(box, TensorProperties(dtype=chunk.tensor.dtype), torch.Size(chunk.global_shape))
    return WriteItem(MetadataIndex(name_of(chunk), box.offsets), WriteItemType.SHARD, tensor_data=data)


def _box(chunk: SavedShard) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(torch.Size(chunk.offsets), torch.Size(chunk.tensor.shape))


def _place(index: MetadataIndex) -> tuple[Any, ...]:
    return index.fqn, *(index.offset or ())
