"""A small training program watched from outside: its output lines with times, and its ranks' processes."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import psutil
import typer

EVERY = 4  # steps between two checkpoints
TABLES: dict[str, dict[str, Any]] = {
    "model": {"layers": 4, "hidden": 128, "heads": 4, "sequence": 128},
    "step": {"batch": 16, "microbatches": 2, "zero": 1},
    "lr": {"peak": 3e-3, "warmup": 4},
    "checkpoints": {"every": EVERY, "keep": 1},
    "log": {"measure": 0, "tensorboard": False, "figure": False},
}


def write_recipe(folder: Path, *, dp: int | None, steps: int, survival: dict[str, Any]) -> Path:
    """Write a recipe file whose run writes into `folder`. dp None: as many replicas as there are ranks."""
    from shardlab.train import from_tables
    from shardlab.train.planned import to_toml

    mesh = {} if dp is None else {"dp": dp}
    run = {"steps": steps, "folder": str(folder / "run")}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.toml"
    path.write_text(to_toml(from_tables(TABLES | {"mesh": mesh, "run": run, "survival": survival})), encoding="utf-8")
    return path


class Watched:
    """A running program. Use it in `with`, which ends it and all its descendants."""

    def __init__(self, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self.lines: list[tuple[float, str]] = []  # seconds of time.monotonic()
        self._changed, self._is_open = Condition(), True
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Send SIGKILL to the program and all its descendants, as in a power failure."""
        for one in [*self._below(), psutil.Process(self.process.pid)] if self.process.poll() is None else []:
            one.kill()
        self.process.wait()
        self._reader.join()

    def wait_for(self, pattern: str, *, limit: float) -> tuple[float, str]:
        """The first line that matches a regular expression, and its time. Otherwise exits and prints the last lines."""
        until = time.monotonic() + limit
        with self._changed:
            while True:
                for when, line in self.lines:
                    if re.search(pattern, line):
                        return when, line
                if not self._is_open or not self._changed.wait(until - time.monotonic()):
                    last = "\n".join(line for _, line in self.lines[-12:])
                    typer.echo(f"no line had {pattern!r} within {limit:.0f} s; the last lines:\n{last}", err=True)
                    raise typer.Exit(1)

    def end(self, *, limit: float) -> int:
        """Wait for the program to end and return its exit code."""
        code = self.process.wait(limit)
        self._reader.join()
        return code

    def rank(self, number: int) -> psutil.Process:
        """The process of a rank."""
        for one in self._below():
            try:
                if one.environ().get("RANK") == str(number):
                    return one
            except psutil.Error:
                continue
        typer.echo(f"there is no rank {number}", err=True)
        raise typer.Exit(2)

    def _below(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append((time.monotonic(), line.rstrip("\n")))
                self._changed.notify_all()
        with self._changed:
            self._is_open = False
            self._changed.notify_all()


def python(*words: str) -> list[str]:
    """A command for this interpreter with unbuffered output."""
    return [sys.executable, "-u", *words]
