"""Training logs: lines for people, JSON for programs, events for TensorBoard, and the loss curve as a picture.

Only the first rank writes. `tensorboard --logdir FOLDER` shows the events, which tensorboardX writes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event  # type: ignore[attr-defined] - protobuf makes it at run time
from tensorboardX.proto.summary_pb2 import Summary  # type: ignore[attr-defined]


class EventWriter:
    """Appends scalars to a new file in a folder.

    It writes from the calling thread. `tensorboardX.SummaryWriter` writes from a thread that dies when the disk is
    full; training would then block on its full queue.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._events = EventsWriter(str(folder / "events"), filename_suffix=f".{os.getpid()}")

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers of one step, by name."""
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._events.write_event(Event(wall_time=time.time(), step=step, summary=summary))
        self._events.flush()

    def close(self) -> None:
        """Close the file."""
        self._events.close()


FILE, EVENTS = "log.jsonl", "tensorboard"


@dataclass(frozen=True)
class LoggedStep:
    """One step, counted from 1.

    loss: mean over the tokens that count. norm: of the whole gradient before clipping. seconds: without checkpoints.
    mfu: None if no peak is known. memory: bytes of the first rank's process.
    """

    step: int
    loss: float
    norm: float
    lr: float
    tokens: int
    seconds: float
    mfu: float | None
    memory: int

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of all ranks together."""
        return self.tokens / self.seconds

    def line(self, steps: int) -> str:
        """A line for people."""
        share = "" if self.mfu is None else f"  mfu {self.mfu:5.1%}"
        return (
            f"step {self.step:>{len(str(steps))}}/{steps}  loss {self.loss:.4f}  norm {self.norm:8.3f}  "
            f"lr {self.lr:.2e}  {self.tokens_per_second:9,.0f} tokens/s{share}  {self.memory / 2**20:,.0f} MiB"
        )


class Logs:
    """Writes rows and messages; does nothing on ranks other than the first."""

    def __init__(self, folder: Path | None, *, rank: int, events: bool = True, quiet: bool = False) -> None:
        self.is_first, self._quiet = rank == 0, quiet
        self.folder = folder if self.is_first else None
        self._events = _events_in(self.folder / EVENTS) if self.folder and events else None
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)

    def say(self, text: str) -> None:
        """Write a message to the terminal and the file."""
        if self.is_first and not self._quiet:
            print(text, flush=True)
        self.note({"say": text})

    def row(self, row: LoggedStep, *, steps: int, show: bool) -> None:
        """Write the row of a step."""
        if show and self.is_first and not self._quiet:
            print(row.line(steps), flush=True)
        self.note(asdict(row))
        if self._events:
            numbers = {"loss": row.loss, "norm": row.norm, "lr": row.lr, "tokens per second": row.tokens_per_second}
            with self._unharmed():
                self._events.scalars(row.step, numbers | ({} if row.mfu is None else {"mfu": row.mfu}))

    def note(self, entry: dict[str, Any]) -> None:
        """Write a line of JSON."""
        if self.folder:
            with self._unharmed(), (self.folder / FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def file(self, name: str, text: str) -> None:
        """Write a whole file in the folder."""
        if self.folder:
            with self._unharmed():
                (self.folder / name).write_text(text, encoding="utf-8")

    @contextmanager
    def _unharmed(self) -> Iterator[None]:
        """On a full disk, lose the log entry instead of stopping the training."""
        try:
            yield
        except OSError as error:
            print(f"{self.folder} cannot be written: {error.strerror}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Close the event file."""
        if self._events:
            self._events.close()


def _events_in(folder: Path) -> EventWriter:

    return EventWriter(folder)


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The rows of all runs in a folder, ordered by step; if a resumed run repeated a step, its row counts."""
    by_step = {entry["step"]: entry for entry in entries(folder) if "loss" in entry}
    return [by_step[step] for step in sorted(by_step)]


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """All lines except truncated ones."""
    path = Path(folder, FILE)
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def draw_log(folder: Path, picture: Path) -> str:
    """Draw the losses in a folder's log; returns a description of the figure, or that there is nothing to draw."""
    from matplotlib.figure import Figure

    from shardlab.figures.training import draw_losses

    runs = runs_of(folder)
    if not runs:
        return "no loss curve, because no step was logged"
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    words = draw_losses(figure.subplots(), runs)
    figure.savefig(picture)
    return words


def runs_of(folder: Path) -> list[list[tuple[int, float]]]:
    """(step, loss) pairs of each run in a folder that did at least one step, in the order of the runs."""
    runs: list[list[tuple[int, float]]] = []
    for entry in entries(folder):
        if "recipe" in entry:
            runs.append([])
        elif "loss" in entry and runs:
            runs[-1].append((entry["step"], entry["loss"]))
    return [run for run in runs if run]
