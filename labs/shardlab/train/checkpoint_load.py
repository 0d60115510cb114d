"""Load a checkpoint written on any mesh: all ranks verify it together, then each reads the blocks it needs.

It does not matter which rank wrote a block, and nothing is gathered.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemReader

from shardlab.hybrid.groups import WORLD
from shardlab.hybrid.mesh_trainer import MeshTrainer
from shardlab.hybrid.pieces import after_load, chunks_to_load, chunks_to_save
from shardlab.train.checkpoint_contents import (
    Damaged,
    Reading,
    WholeTensor,
    check_bytes,
    check_sizes,
    check_tensors,
    complete,
    kept,
    read_contents,
)

Say = Callable[[str], None]


def load(trainer: MeshTrainer, checkpoint: Path, *, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Set weights and optimizer from a checkpoint and return its contents; call it on every rank.

    facts: entries that the checkpoint must contain, such as the model's sizes. Raises ValueError on every rank, before
    anything is changed: Damaged for a truncated checkpoint or a wrong checksum, otherwise for one of another model.
    """
    group = trainer.groups.of(*WORLD)
    wanted = _tensors_of(trainer)
    contents = _agreed(lambda: _checked(Path(checkpoint), wanted, facts or {}, group), group)
    reader = FileSystemReader(checkpoint)
    metadata = reader.read_metadata()
    reader.set_up_storage_reader(metadata, is_coordinator=False)
    reading = Reading(chunks_to_load(trainer))
    reader.read_data(reading.plan(metadata), reading).wait()  # type: ignore[arg-type]
    after_load(trainer)
    return contents


def load_latest(
    trainer: MeshTrainer, folder: Path, *, facts: Mapping[str, Any] | None = None, say: Say = lambda text: None
) -> dict[str, Any] | None:
    """Load the latest undamaged checkpoint of a folder and report those it skips; returns None if there is none.

    Raises ValueError on every rank for a checkpoint of another model or another training run.
    """
    candidates = [complete(Path(folder))]
    dist.broadcast_object_list(candidates, group_src=0, group=trainer.groups.of(*WORLD))
    for checkpoint in candidates[0]:
        try:
            return load(trainer, checkpoint, facts=facts)
        except Damaged as error:
            say(f"skipped: {error}")
    return None


def latest(folder: Path, say: Say = lambda text: None) -> Path | None:
    """The latest checkpoint whose files all have the right sizes; reports those it skips. Needs no ranks."""
    for checkpoint in complete(Path(folder)):
        try:
            check_sizes(checkpoint, read_contents(checkpoint)["files"])
            return checkpoint
        except Damaged as error:
            say(f"skipped: {error}")
    return None


def remove_drafts(folder: Path, say: Say = lambda text: None) -> None:
    """Remove the drafts of unfinished saves, before the first save of a run."""
    for draft in sorted(Path(folder).glob(".step-*")):
        say(f"removed {draft.name}, which was not finished when its run ended")
        shutil.rmtree(draft, ignore_errors=True)


def _tensors_of(trainer: MeshTrainer) -> dict[str, WholeTensor]:
    """All whole tensors of this training, from all ranks."""
    chunks_to_load(trainer)  # creates the optimizer states as zeros if no step has done so
    group = trainer.groups.of(*WORLD)
    by_rank: list[dict[str, WholeTensor]] = [{}] * dist.get_world_size(group)
    dist.all_gather_object(by_rank, kept(chunks_to_save(trainer)), group=group)
    return {name: one for some in by_rank for name, one in some.items()}


def _checked(checkpoint: Path, wanted: dict[str, WholeTensor], facts: Mapping[str, Any], group: Any) -> dict[str, Any]:
    """The contents after this rank's checks: files are divided among the ranks, so each is read once."""
    contents = read_contents(checkpoint)
    check_sizes(checkpoint, contents["files"])
    for name, value in facts.items():
        if contents.get(name) != value:
            raise ValueError(
                f"{checkpoint} belongs to another run: {name} was {contents.get(name)!r}, here it is {value!r}. "
                "Nothing was loaded; use another folder, or checkpoints.resume = false"
            )
    check_tensors(checkpoint, contents["tensors"], wanted)
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    check_bytes(checkpoint, contents["files"], sorted(contents["files"])[rank::size])
    return contents


def _agreed(check: Callable[[], dict[str, Any]], group: Any) -> dict[str, Any]:
    """The result of `check` if it succeeds on every rank; otherwise raises the first rank's error on all of them."""
    found, error = {}, None
    try:
        found = check()
    except ValueError as caught:
        error = caught
    except OSError as caught:  # a disk error must not leave the other ranks waiting
        error = Damaged(f"{caught.filename} cannot be read: {caught.strerror}")
    by_rank: list[ValueError | None] = [None] * dist.get_world_size(group)
    dist.all_gather_object(by_rank, error, group=group)
    if first := next((one for one in by_rank if one is not None), None):
        raise type(first)(str(first))
    return found
