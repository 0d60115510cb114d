"""Kill ranks at random moments, or while a checkpoint is written; the result must equal that of an undisturbed run.

Two replicas train in float64 for 15 steps with a checkpoint every 3. Some runs resume on both ranks, some on another
mesh: one rank. Rows are stored in build/kills.jsonl and summarized in build/kills.md (KEPT_ROWS sets another folder).
Delete the file to start over.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import psutil
import torch
from rich.console import Console
from shardlab.train.checkpoint_contents import complete
from shardlab.train.logs import read_log
from shardlab.train.planned import to_toml
from shardlab.train.recipe import from_tables
from torch.distributed.checkpoint import FileSystemReader, load
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from autograder.matrices.kept import kept_folder
from benchmarks.row import Row, at_most

OF_A_KIND, STEPS, EVERY, LONG = 20, 15, 3, 240.0
MOST_APART = 1e-5  # on another mesh, sums have a different order; on the same mesh nothing may differ
TABLES: dict[str, dict[str, Any]] = {
    "model": {"layers": 4, "hidden": 64, "heads": 4, "sequence": 64},
    "mesh": {"dp": 2},
    "step": {"batch": 16, "microbatches": 2, "zero": 1, "dtype": "float64"},
    "lr": {"peak": 3e-3, "warmup": 4},
    "checkpoints": {"every": EVERY},
    "log": {"measure": 0, "tensorboard": False, "figure": False},
}


@dataclass(frozen=True)
class Kill:
    """One run. after: the newest checkpoint's step when the rank was killed; resumed: the step it resumed from.

    apart: the largest difference from the undisturbed run in any loss, or in a weight or moment at the end.
    """

    kind: str
    then: str
    number: int
    rank: int
    after: int
    resumed: int
    apart: float

    @property
    def is_right(self) -> bool:
        """Whether nothing after the last checkpoint was lost, and the result is the same."""
        return self.resumed >= self.after and self.apart <= (0.0 if self.then == "restart" else MOST_APART)


def measure() -> list[Row]:
    """Kill until each kind has twenty runs, write the table, and count failures. KILLS=n: at most n new runs."""
    file = kept_folder() / "kills.jsonl"
    kept = [Kill(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []
    most, progress = int(os.environ.get("KILLS", "1000")), Console(stderr=True)
    there = {(one.kind, one.number) for one in kept}
    wanted = [(kind, number) for number in range(OF_A_KIND) for kind in ("any moment", "in a checkpoint")]
    with tempfile.TemporaryDirectory(prefix="shardlab-kills-") as name:
        whole = None
        for kind, number in [one for one in wanted if one not in there][:most]:
            whole = whole or unbroken(Path(name, "whole"))
            kept.append(one := killed(Path(name, f"{kind} {number}"), kind, number, whole))
            with file.open("a") as lines:
                lines.write(json.dumps(asdict(one)) + "\n")
            progress.print(str(one), highlight=False)
    file.with_suffix(".md").write_text("\n".join(table(kept)) + "\n")
    return [at_most(f"of {len(kept)} kills, failures", sum(not one.is_right for one in kept), 0)]


def unbroken(folder: Path) -> Path:
    """Run the undisturbed training."""
    process, _ = started(folder, "stop")
    if process.wait(LONG):
        raise RuntimeError((folder / "said").read_text())
    return folder


def killed(folder: Path, kind: str, number: int, whole: Path) -> Kill:
    """Run one training in which a rank is killed."""
    random = Random(f"{kind} {number}")
    rank, then = random.randrange(2), ("shrink" if number % 3 == 2 else "restart")
    process, checkpoints = started(folder, then)
    if kind == "any moment":
        wait_until(lambda: len(read_log(folder / "run")) >= 1)
        time.sleep(random.random() * 0.9 * sum(row["seconds"] for row in read_log(whole / "run")))
    else:
        draft = checkpoints / f".step-{EVERY * random.randint(1, STEPS // EVERY - 1):08}.part"
        wait_until(draft.exists)
        time.sleep(random.random() * 0.02)
    after = newest(checkpoints)
    rank_of(process, rank).kill()
    if process.wait(LONG):
        raise RuntimeError((folder / "said").read_text())
    resumed = re.findall(r"resumed after step (\d+)", (folder / "said").read_text())
    return Kill(kind, then, number, rank, after, int(resumed[-1]) if resumed else 0, apart(folder, whole))


def started(folder: Path, then: str) -> tuple[subprocess.Popen, Path]:
    """Start the training as a program; return the process and the folder of its checkpoints. Output goes to a file."""
    folder.mkdir()
    run = {"steps": STEPS, "folder": str(folder / "run")}
    recipe = from_tables(TABLES | {"run": run, "survival": {"on_lost_rank": then}})
    (folder / "recipe.toml").write_text(to_toml(recipe))
    with (folder / "said").open("w") as said:
        command = [sys.executable, "-u", "-m", "shardlab.train", str(folder / "recipe.toml")]
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
    return process, folder / "run" / "checkpoints"


def wait_until(is_so: Any) -> None:
    """Poll a thousand times per second; TimeoutError when it takes too long."""
    until = time.monotonic() + LONG
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError("the training has not come so far")
        time.sleep(0.001)


def newest(checkpoints: Path) -> int:
    """Return the step of the newest complete checkpoint, or 0."""
    return next((int(path.name.partition("-")[2]) for path in complete(checkpoints)), 0)


def rank_of(process: subprocess.Popen, rank: int) -> psutil.Process:
    """Return a rank's process."""
    return next(one for one in psutil.Process(process.pid).children() if one.environ().get("RANK") == str(rank))


def apart(folder: Path, whole: Path) -> float:
    """Return the largest difference in losses and the last checkpoint's numbers; infinite if something is missing."""
    ours, theirs = ({row["step"]: row["loss"] for row in read_log(one / "run")} for one in (folder, whole))
    mine, others = (numbers(one / "run" / "checkpoints") for one in (folder, whole))
    if ours.keys() != theirs.keys() or mine.keys() != others.keys():
        return float("inf")
    losses = max(abs(ours[step] - theirs[step]) for step in ours)
    return max(losses, *((mine[name] - others[name]).abs().max().item() for name in mine))


def numbers(checkpoints: Path) -> dict[str, torch.Tensor]:
    """Return all tensors of the last checkpoint, read with torch's own reader."""
    reader = FileSystemReader(checkpoints / f"step-{STEPS:08}")
    about = reader.read_metadata().state_dict_metadata
    found: dict[str, Any] = {
        name: torch.empty(one.size, dtype=one.properties.dtype)
        for name, one in about.items()
        if isinstance(one, TensorStorageMetadata)
    }
    load(found, storage_reader=reader, no_dist=True)
    return found


def table(kept: list[Kill]) -> Iterator[str]:
    """Format all kills as a page."""
    yield "# Killed ranks"
    yield ""
    yield f"`python -m benchmarks kills`: two replicas, ZeRO-1, float64, {STEPS} steps, a checkpoint every {EVERY}."
    yield ""
    yield "| when | resumes with | kills | failures | from the newest checkpoint or a later one | apart |"
    yield "|---|---|---|---|---|---|"
    for kind in ("any moment", "in a checkpoint"):
        for then, what in (("restart", "both ranks"), ("shrink", "one rank")):
            some = [one for one in kept if (one.kind, one.then) == (kind, then)]
            if some:
                in_time = sum(one.resumed >= one.after for one in some)
                wrong, most = sum(not one.is_right for one in some), max(one.apart for one in some)
                yield f"| {kind} | {what} | {len(some)} | {wrong} | {in_time} | {most:.1e} |"
    yield ""
    yield "Apart: the largest difference in a loss, weight or moment at the end from a run without a kill."
