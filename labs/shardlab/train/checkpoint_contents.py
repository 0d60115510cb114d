"""The contents of a checkpoint: a rank's items to write and to read, and a verified list of all tensors and files.

A checkpoint is a folder `step-00000020` with files of torch's distributed checkpoint (DCP) and `contents.json`, which
is written last. The folder gets that name when it is complete; until then it is called `.step-00000020.part`. Tensors
are named by kind and global name: "weight.blocks.7.up.weight" or "exp_avg.token.weight". DCP records the blocks in
which each tensor was written, and reads any other blocks from them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
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


CONTENTS, FORMAT = "contents.json", 1
BEFORE_IT = "Load an earlier checkpoint, or none"


class Damaged(ValueError):
    """A checkpoint that is truncated or whose bytes have changed."""


def folder_of(root: Path, step: int) -> Path:
    """The path of a complete checkpoint."""
    return root / f"step-{step:08}"


def draft_of(target: Path) -> Path:
    """The path of a checkpoint until it is complete."""
    return target.with_name(f".{target.name}.part")


def complete(root: Path) -> list[Path]:
    """The complete checkpoints, latest first."""
    return sorted((path for path in root.glob("step-*") if path.is_dir()), reverse=True)


def sha256(path: Path) -> str:
    """The SHA-256 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_contents(folder: Path, contents: Mapping[str, Any]) -> None:
    """Write the list with a checksum of itself, and flush it to disk."""
    whole = {"format": FORMAT, **contents}
    with (folder / CONTENTS).open("w", encoding="utf-8") as file:
        json.dump(whole | {"checksum": _of_json(whole)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def read_contents(checkpoint: Path) -> dict[str, Any]:
    """The list of a checkpoint. Raises Damaged if it is missing, truncated or changed."""
    try:
        contents = json.loads((checkpoint / CONTENTS).read_text(encoding="utf-8"))
        stated = contents.pop("checksum")
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        reason = f"its {CONTENTS} cannot be read ({type(error).__name__})"
        raise Damaged(f"{checkpoint} is not a complete checkpoint: {reason}. {BEFORE_IT}") from None
    if stated != _of_json(contents):
        raise Damaged(f"{checkpoint}: {CONTENTS} does not match its own checksum. {BEFORE_IT}")
    if contents["format"] != FORMAT:
        raise ValueError(f"{checkpoint} has format {contents['format']}, but this program reads format {FORMAT}")
    return contents


def check_sizes(checkpoint: Path, files: Mapping[str, Sequence[Any]]) -> None:
    """Raise Damaged if a file is missing or has a different size; reads no file."""
    for name, (size, _) in files.items():
        path = checkpoint / name
        there = path.stat().st_size if path.is_file() else 0
        if there != size:
            raise Damaged(f"{checkpoint} is incomplete: {name} has {there} bytes instead of {size}. {BEFORE_IT}")


def check_bytes(checkpoint: Path, files: Mapping[str, Sequence[Any]], names: Sequence[str]) -> None:
    """Raise Damaged if the bytes of a file in `names` have changed since it was written."""
    for name in names:
        if sha256(checkpoint / name) != files[name][1]:
            raise Damaged(f"{checkpoint}: the checksum of {name} has changed since it was written. {BEFORE_IT}")


def check_tensors(checkpoint: Path, saved: Mapping[str, Sequence[Any]], wanted: Mapping[str, WholeTensor]) -> None:
    """Raise ValueError with the first difference if a checkpoint is of another model or optimizer."""
    theirs = {name: WholeTensor(tuple(shape), dtype) for name, (shape, dtype) in saved.items()}
    if theirs == wanted:
        return
    reason = next(_differences(theirs, wanted))
    raise ValueError(f"{checkpoint} belongs to another model or optimizer: {reason}. Nothing was loaded")


def _differences(theirs: Mapping[str, WholeTensor], wanted: Mapping[str, WholeTensor]) -> Iterator[str]:
    their_blocks, our_blocks = _blocks(theirs), _blocks(wanted)
    if their_blocks < our_blocks:
        yield (
            f"it has blocks 0 to {max(their_blocks, default=0)}, this model 0 to {max(our_blocks)}: either that model "
            "had fewer layers, or each pipeline stage numbered its blocks from 0 and overwrote those of another stage"
        )
    their_kinds, our_kinds = ({name.partition(".")[0] for name in some} for some in (theirs, wanted))
    if their_kinds != our_kinds:
        yield f"it stores {', '.join(sorted(their_kinds))} of each tensor, this run {', '.join(sorted(our_kinds))}"
    for name in sorted(theirs.keys() | wanted.keys()):
        if name not in theirs or name not in wanted:
            yield f"{name} is only in {'this model' if name in wanted else 'the checkpoint'}"
        if theirs[name] != wanted[name]:
            yield f"{name} is {_text(theirs[name])} in the checkpoint and {_text(wanted[name])} in this model"


def _blocks(names: Mapping[str, WholeTensor]) -> set[int]:
    """The indices of the blocks that have weights."""
    return {int(name.split(".")[2]) for name in names if name.startswith("weight.blocks.")}


def _text(one: WholeTensor) -> str:
    return f"{list(one.shape)} of {one.dtype.removeprefix('torch.')}"


def _of_json(contents: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()
