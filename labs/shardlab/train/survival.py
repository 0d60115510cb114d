"""Heartbeats of ranks, and the observer in the launching process that names the rank that was lost.

A thread of each rank writes where the rank is, again and again. It goes on while the rank waits for others: only a rank
that is itself dead or stopped falls silent, and not those that wait for it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from shardlab.train.loop import Hook

if TYPE_CHECKING:
    from shardlab.train.checkpoint_save import Saved
    from shardlab.train.logs import Row
    from shardlab.train.loop import Training

FOLDER = "SHARDLAB_BEATS"  # the environment's name for the folder of the heartbeats
BEAT, LOOK = 0.2, 0.1  # seconds between two heartbeats, and between two looks at them
ATTEMPT = "TORCHELASTIC_RESTART_COUNT"  # torchrun's number of the attempt
SELDOM = 10  # looks after which the list of processes is read, which takes longer than the heartbeats
FIRST = 4  # times the silence that a rank gets until its first heartbeat: it imports torch
AT_ITS_END = "at its end"
ENDINGS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


@dataclass(frozen=True)
class Beat:
    """Where a rank is. born: its process's start, since process ids are used again. at: seconds since 1970."""

    rank: int
    pid: int
    born: float
    attempt: int
    place: str
    step: int
    doing: str
    at: float


@dataclass(frozen=True)
class Lost:
    """A rank that was lost. silent: seconds from its last heartbeat until it was seen. how: "died" or "fell silent"."""

    beat: Beat
    how: str
    silent: float

    def sentence(self) -> str:
        """As people read it."""
        beat = self.beat
        place = f" ({beat.place})" if beat.place else ""
        return f"rank {beat.rank}{place} {self.how} at step {beat.step}, {beat.doing}: seen after {self.silent:.1f} s"


class Heart(Hook):
    """Writes this rank's heartbeat until it is stopped."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._path = folder / f"rank-{rank}.json"
        self._rank, self._born = rank, psutil.Process().create_time()
        self._place, self._step, self._doing = "", 0, "meeting the other ranks"
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The rank ends by itself: nobody shall miss it."""
        self._doing = AT_ITS_END
        self._end.set()
        self._thread.join()

    def on_begin(self, training: Training) -> None:
        where = training.trainer.mesh.coordinates(self._rank)
        self._place = " ".join(f"{axis} {number}" for axis, number in where.items())
        self._step, self._doing = training.done, "about to begin"

    def on_step(self, training: Training, step: int) -> None:
        self._step, self._doing = step, "in its passes"

    def on_end(self, training: Training, row: Row) -> None:
        self._doing = "after its passes"

    def on_saved(self, training: Training, saved: Saved) -> None:
        self._doing = "after a checkpoint"

    def _beat(self) -> None:
        attempt, draft = int(os.environ.get(ATTEMPT, "0")), self._path.with_suffix(".part")
        while True:
            is_last = self._end.is_set()
            now = (self._place, self._step, self._doing, time.time())
            beat = Beat(self._rank, os.getpid(), self._born, attempt, *now)
            try:
                draft.write_text(json.dumps(asdict(beat)), encoding="utf-8")
                draft.replace(self._path)
            except OSError:
                return  # the folder is gone with its observer, or has no room: whoever looks sees a silent rank
            if is_last:
                return
            self._end.wait(BEAT)


@contextmanager
def beating(rank: int) -> Iterator[list[Hook]]:
    """The hooks of a rank: its heart, where somebody in the launching process looks."""
    folder = os.environ.get(FOLDER)
    if not folder:
        yield []
        return
    heart = Heart(Path(folder), rank)
    try:
        yield [heart]
    finally:
        heart.stop()


@contextmanager
def observed(silence: float, told: Callable[[Lost], None]) -> Iterator[None]:
    """Look at the heartbeats of all ranks started inside; a rank silent for `silence` seconds is ended by SIGKILL.

    The elastic agent then does what it does for any dead rank. told: called once in each attempt, with the first lost.
    A signal that ends this process ends the looking as well: its ranks are then ended by the agent, and not lost.
    """
    with (
        tempfile.TemporaryDirectory(prefix="shardlab-beats-", ignore_cleanup_errors=True) as folder,
        _signals() as heard,
    ):
        end = threading.Event()
        thread = threading.Thread(target=_look, args=(Path(folder), silence, told, heard, end), daemon=True)
        before = os.environ.get(FOLDER)
        os.environ[FOLDER] = folder
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()
            os.environ.pop(FOLDER)
            if before is not None:
                os.environ[FOLDER] = before


@contextmanager
def _signals() -> Iterator[int]:
    """A pipe that holds the number of each signal as soon as it arrives, whatever the main thread does."""
    heard, told = os.pipe()
    os.set_blocking(heard, False)
    os.set_blocking(told, False)
    is_main = threading.current_thread() is threading.main_thread()  # no other may ask for it
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False) if is_main else -1
    try:
        yield heard
    finally:
        if is_main:
            signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(told)


def _look(folder: Path, silence: float, told: Callable[[Lost], None], heard: int, end: threading.Event) -> None:
    seen = -1  # the last attempt whose loss was told
    for number in count():
        if end.wait(LOOK):
            return
        lost = [one for beat in beats(folder) if (one := find_lost(beat, silence))]
        if number % SELDOM == 0:
            lost += [one for beat in without_beat(folder) if (one := find_lost(beat, FIRST * silence))]
        if _is_ending(heard):  # asked after the look: what has died by now died of the end
            _wake(end)
            return
        first = min((one for one in lost if one.beat.attempt > seen), key=lambda one: one.beat.at, default=None)
        if first is None:
            continue
        seen = first.beat.attempt
        told(first)
        if first.how != "died" and _is_alive(first.beat):
            os.kill(first.beat.pid, signal.SIGKILL)


def _is_ending(heard: int) -> bool:
    """Whether a signal has come that ends this process."""
    ready, _, _ = select.select([heard], [], [], 0)
    return bool(ready) and not ENDINGS.isdisjoint(os.read(heard, 4096))


def _wake(end: threading.Event) -> None:
    """A stopped rank does not hear that it shall end: wake all until the agent is done."""
    while True:
        for rank in ranks_below():
            with suppress(psutil.NoSuchProcess):
                rank.resume()
        if end.wait(LOOK):
            return


def beats(folder: Path) -> list[Beat]:
    """The last heartbeat of every rank."""
    found = []
    for path in sorted(folder.glob("rank-*.json")):
        with suppress(FileNotFoundError):  # it has just ended by itself
            found.append(Beat(**json.loads(path.read_text(encoding="utf-8"))))
    return found


def without_beat(folder: Path) -> list[Beat]:
    """The ranks that have not written a heartbeat yet, as if their only one had been their start."""
    known = {beat.pid for beat in beats(folder)}
    found = []
    for process in ranks_below():
        with suppress(psutil.Error, OSError):  # it has just ended
            born, variables = process.create_time(), process.environ()
            if process.pid not in known:
                place = int(variables["RANK"]), process.pid, born, int(variables[ATTEMPT])
                found.append(Beat(*place, "", 0, "before its first heartbeat", born))
    return found


def ranks_below() -> list[psutil.Process]:
    """The processes that the elastic agent of this one has started as ranks."""
    found = []
    for process in psutil.Process().children():
        with suppress(psutil.Error, OSError):
            if {"RANK", ATTEMPT} <= process.environ().keys():
                found.append(process)
    return found


def find_lost(beat: Beat, silence: float) -> Lost | None:
    """Whether the rank of a heartbeat is dead, or silent for longer than `silence` seconds."""
    if beat.doing == AT_ITS_END:
        return None
    silent = max(time.time() - beat.at, 0.0)
    if not _is_alive(beat):
        return Lost(beat, "died", silent)
    return Lost(beat, "fell silent", silent) if silent > silence else None


def _is_alive(beat: Beat) -> bool:
    try:
        process = psutil.Process(beat.pid)
        return process.create_time() == beat.born and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
