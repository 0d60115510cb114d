"""Save while the training goes on: a copy in memory, a thread that writes it, and an end that all ranks agree upon.

    saver = Saver(trainer, folder, keep=3, told=print)
    saver.begin(step, facts)  # copies this rank's numbers and returns: the steps that follow change the originals
    saver.poll()              # between steps: gives a checkpoint its name once every rank has written its part
    saver.finish()            # waits for it

The thread sends nothing: ranks tell each other in `poll` and `finish`, between steps, that their files are written. A
rank that dies before leaves a draft, and the checkpoints before it as they were.
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
from shardlab.train.checkpoint_contents import complete, draft_of, folder_of, sha256, write_contents
from shardlab.train.checkpoint_plan import WholeTensor, Writing, joint_plan, kept


@dataclass(frozen=True)
class Saved:
    """How a save ended, the same on every rank: `problem` is "" for a checkpoint that has its name.

    stall: seconds that this rank's steps waited for it. seconds: from its begin to its end.
    """

    step: int
    folder: Path
    problem: str
    stall: float
    seconds: float


@dataclass
class _Under:
    """A save that is under way on this rank."""

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
    """Writes a trainer's checkpoints into a folder, one at a time, and keeps the last ones.

    All ranks of the world build it and call its methods together. asynchronous: files are written beside the steps.
    told: called on every rank when a save has ended, well or not; no save ends a training.
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
        """Save what there is after `step` steps, with some facts that JSON can hold; every rank calls.

        One that is still under way is waited for. Raises ValueError, on every rank alike, where two ranks would write
        the same numbers.
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
        """Between steps, on every rank: end a save that all ranks have written."""
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
        """Wait until the save that is under way has ended."""
        if self._under is None:
            return
        began = time.monotonic()
        if self._under.thread is not None:
            self._under.thread.join()
        self._end(began)

    # ---- how ---------------------------------------------------------------------------------------------------------

    def _chunks(self):
        if self._plan is None:
            chunks_to_load(self.trainer)  # makes the optimizer's states, where no step has
        return chunks_to_save(self.trainer)

    def _planned(self, writing: Writing) -> tuple[SavePlan, Metadata, dict[str, WholeTensor]]:
        """Which blocks this rank writes: agreed upon once, as no step changes it."""
        if self._plan is None:
            mine = writing.items, kept(self._chunks())
            by_rank: list[Any] = [None] * dist.get_world_size(self._group)
            dist.all_gather_object(by_rank, mine, group=self._group)
            plan, metadata = joint_plan([items for items, _ in by_rank], self._rank)
            tensors = {name: one for _, some in by_rank for name, one in some.items()}
            self._plan = plan, metadata, tensors
        return self._plan

    def _make_draft(self, under: _Under) -> None:
        """An empty draft, before anybody writes into it."""
        if self._rank == 0:
            try:
                draft = draft_of(under.target)
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir(parents=True)
            except OSError as error:
                under.problem = _sentence(error)
        dist.barrier(group=self._group)

    def _write(self, under: _Under, plan: SavePlan, writing: Writing) -> None:
        """This rank's file and its checksum; what goes wrong is told later, to all ranks."""
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
        except Exception as error:  # of any kind: the training is worth more than this checkpoint
            under.problem = _sentence(error)

    def _end(self, began: float) -> None:
        """All ranks have written: one of them lists what there is and gives the folder its name, or removes it."""
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
        """Write the lists, rename, and remove what is too old; "" or why not."""
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
    """Give a draft its name. One that has it already is put aside first and removed last."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    draft.rename(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name, too, is on the disk
    finally:
        os.close(folder)
    shutil.rmtree(old, ignore_errors=True)


def _sentence(error: Exception) -> str:
    """What went wrong, with the file where there is one."""
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.strerror}" + (f" ({cause.filename})" if cause.filename else "")
    return f"{type(cause).__name__}: {cause}".splitlines()[0]
