"""Save while training continues: copy to memory, write from a thread, and finish when all ranks have written.

    saver = Saver(trainer, folder, keep=3, told=print)
    saver.begin(step, facts)  # copies this rank's tensors and returns; later steps change only the originals
    saver.poll()              # between steps: gives a checkpoint its name once every rank has written its part
    saver.finish()            # waits until it is written

The thread sends nothing: in `poll` and `finish`, between steps, ranks inform each other that their files are written.
If a rank dies before that, a draft remains, and earlier checkpoints are unchanged.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.storage import WriteResult

from shardlab.hybrid.groups import WORLD
from shardlab.hybrid.mesh_trainer import MeshTrainer
from shardlab.hybrid.pieces import chunks_to_load, chunks_to_save
from shardlab.train.checkpoint_contents import (
    WholeTensor,
    Writing,
    complete,
    draft_of,
    folder_of,
    joint_plan,
    kept,
    sha256,
    write_contents,
)


@dataclass(frozen=True)
class Saved:
    """The result of a save; `problem` is the same on every rank, and "" for a complete checkpoint.

    stall: seconds that this rank's steps waited for the save. seconds: from its beginning to its end.
    """

    step: int
    folder: Path
    problem: str
    stall: float
    seconds: float


@dataclass
class _Under:
    """A save in progress on this rank."""

    step: int
    target: Path
    facts: Mapping[str, Any]
    began: float
    stall: float = 0.0
    thread: Thread | None = None
    results: list[WriteResult] = field(default_factory=list)
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    problem: str = ""


class Saver:
    """Writes a trainer's checkpoints into a folder, one at a time, and keeps the latest ones.

    All ranks of the world create it and call its methods together. asynchronous: write files during the steps.
    The callback is called on every rank when a save has succeeded or failed; a failed save does not stop training.
    """

    def __init__(
        self,
        trainer: MeshTrainer,
        folder: Path,
        *,
        keep: int = 3,
        asynchronous: bool = True,
        told: Callable[[Saved], None] = lambda saved: None,
    ) -> None:
        self.trainer, self.folder, self.keep, self.asynchronous = trainer, Path(folder), keep, asynchronous
        self._told = told
        self._group = trainer.groups.of(*WORLD)
        self._rank = dist.get_rank(self._group)
        self._plan: tuple[SavePlan, Metadata, dict[str, WholeTensor]] | None = None
        self._under: _Under | None = None

    def begin(self, step: int, facts: Mapping[str, Any]) -> None:
        """Save the state after `step` steps, with some facts that fit in JSON; call it on every rank.

        Waits for an earlier save that is still in progress. Raises ValueError on every rank if two ranks would write
        the same block.
        """
        self.finish()
        began = time.monotonic()
        writing = Writing(self._chunks())
        plan, _, _ = self._planned(writing)
        under = _Under(step, folder_of(self.folder, step), facts, began)
        self._make_draft(under)
        self._under = under
        if not self.asynchronous:
            self._write(under, plan, writing)
            self._end(began)
            return
        under.thread = Thread(target=self._write, args=(under, plan, writing.stage()), daemon=True, name="checkpoint")
        under.thread.start()
        under.stall = time.monotonic() - began

    def poll(self) -> None:
        """Between steps, on every rank: complete a save once all ranks have written it."""
        if self._under is None:
            return
        began = time.monotonic()
        thread = self._under.thread
        waits = torch.tensor([float(thread is not None and thread.is_alive())])
        dist.all_reduce(waits, group=self._group)
        if waits.item() > 0:
            self._under.stall += time.monotonic() - began
        else:
            self._end(began)

    def finish(self) -> None:
        """Wait for the save in progress to end."""
        if self._under is None:
            return
        began = time.monotonic()
        if self._under.thread is not None:
            self._under.thread.join()
        self._end(began)

    # ---- implementation ----------------------------------------------------------------------------------------------

    def _chunks(self):
        if self._plan is None:
            chunks_to_load(self.trainer)  # creates the optimizer states if no step has done so
        return chunks_to_save(self.trainer)

    def _planned(self, writing: Writing) -> tuple[SavePlan, Metadata, dict[str, WholeTensor]]:
        """Which blocks this rank writes; the ranks agree on it once, because it does not change between steps."""
        if self._plan is None:
            mine = writing.items, kept(self._chunks())
            by_rank: list[Any] = [None] * dist.get_world_size(self._group)
            dist.all_gather_object(by_rank, mine, group=self._group)
            plan, metadata = joint_plan([items for items, _ in by_rank], self._rank)
            tensors = {name: one for _, some in by_rank for name, one in some.items()}
            self._plan = plan, metadata, tensors
        return self._plan

    def _make_draft(self, under: _Under) -> None:
        """Create an empty draft before any rank writes into it."""
        if self._rank == 0:
            try:
                draft = draft_of(under.target)
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir(parents=True)
            except OSError as error:
                under.problem = _sentence(error)
        dist.barrier(group=self._group)

    def _write(self, under: _Under, plan: SavePlan, writing: Writing) -> None:
        """Write this rank's file and its checksum; an error is kept and reported to all ranks later."""
        try:
            if under.problem:
                return
            writer = FileSystemWriter(draft_of(under.target), overwrite=True)
            writer.set_up_storage_writer(self._rank == 0)
            plan = writer.prepare_global_plan([SavePlan([])] * self._rank + [plan])[-1]
            under.results = writer.write_data(plan, writing).wait()  # type: ignore[arg-type]
            for name in sorted({one.storage_data.relative_path for one in under.results}):
                path = draft_of(under.target) / name
                under.files[name] = path.stat().st_size, sha256(path)
        except Exception as error:  # any kind: training is worth more than this checkpoint
            under.problem = _sentence(error)

    def _end(self, began: float) -> None:
        """After all ranks have written: rank 0 writes the lists and renames the folder, or removes it."""
        under, self._under = self._under, None
        assert under is not None
        by_rank: list[Any] = [None] * dist.get_world_size(self._group)
        dist.all_gather_object(by_rank, (under.problem, under.results, under.files), group=self._group)
        problem = next((f"rank {rank}: {text}" for rank, (text, *_) in enumerate(by_rank) if text), "")
        if self._rank == 0 and not problem:
            problem = self._commit(under, by_rank)
        if self._rank == 0 and problem:
            shutil.rmtree(draft_of(under.target), ignore_errors=True)
        told = [problem]
        dist.broadcast_object_list(told, group_src=0, group=self._group)
        now = time.monotonic()
        self._told(Saved(under.step, under.target, told[0], under.stall + now - began, now - under.began))

    def _commit(self, under: _Under, by_rank: list[Any]) -> str:
        """Write the lists, rename the draft, and remove old checkpoints; returns "" or what went wrong."""
        assert self._plan is not None
        _, metadata, tensors = self._plan
        draft = draft_of(under.target)
        try:
            writer = FileSystemWriter(draft)
            writer.set_up_storage_writer(True)
            writer.finish(metadata, [results for _, results, _ in by_rank])
            files = {name: about for *_, some in by_rank for name, about in some.items()}
            files[".metadata"] = (draft / ".metadata").stat().st_size, sha256(draft / ".metadata")
            write_contents(draft, {"step": under.step, **under.facts, "tensors": tensors, "files": files})
            _rename(draft, under.target)
            for old in complete(self.folder)[self.keep :]:
                shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            return _sentence(error)
        return ""


def _rename(draft: Path, target: Path) -> None:
    """Give a draft its final name. An existing folder of that name is first moved aside and finally removed."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    draft.rename(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # so that the new name is on disk, too
    finally:
        os.close(folder)
    shutil.rmtree(old, ignore_errors=True)


def _sentence(error: Exception) -> str:
    """Describe an error, with the file if there is one."""
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.strerror}" + (f" ({cause.filename})" if cause.filename else "")
    return f"{type(cause).__name__}: {cause}".splitlines()[0]
