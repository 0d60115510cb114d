"""The observer in the launching process: it reads all ranks' heartbeats, reports a lost rank, and counts goodput.

Goodput (有效吞吐) is the share of the run's time spent on steps that counted.
"""

from __future__ import annotations

import os
import select
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from shardlab.train.heartbeat import AT_ITS_END, ATTEMPT, FOLDER, Beat, beats, birth_of

LOOK = 0.1  # seconds between checks of the heartbeats
SELDOM = 10  # the list of processes, which takes longer to read, is checked only every this many times
SAME_BIRTH = 2.0  # seconds: the kernel reports its boot time in whole seconds, and clock corrections move it by one
ENDINGS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


@dataclass(frozen=True)
class Lost:
    """A rank that was lost. how: "died" or "fell silent". silent: seconds from its last heartbeat to its detection."""

    beat: Beat
    how: str
    silent: float

    def sentence(self) -> str:
        """A sentence for people."""
        beat = self.beat
        place = f" ({beat.place})" if beat.place else ""
        return (
            f"rank {beat.rank}{place} {self.how} at step {beat.step}, {beat.doing}: detected after {self.silent:.1f} s"
        )


@contextmanager
def observed(silence: float, first: float, told: Callable[[Lost], None]) -> Iterator[None]:
    """Watch the heartbeats of all ranks started inside; a rank silent for `silence` seconds is killed with SIGKILL.

    The elastic agent then treats it like any dead rank. first: seconds that a rank has until its first heartbeat, which
    include importing torch. The callback is called once per attempt, with the first lost rank.
    A signal that ends this process also ends the watch: the agent then ends the ranks, and they are not lost.
    """
    with (
        tempfile.TemporaryDirectory(prefix="shardlab-beats-", ignore_cleanup_errors=True) as folder,
        _signals() as heard,
    ):
        end = threading.Event()
        thread = threading.Thread(target=_look, args=(Path(folder), silence, first, told, heard, end), daemon=True)
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
    """A pipe that receives the number of each signal as soon as it arrives, even if the main thread is busy."""
    heard, told = os.pipe()
    os.set_blocking(heard, False)
    os.set_blocking(told, False)
    is_main = threading.current_thread() is threading.main_thread()  # only the main thread may set a wakeup fd
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False) if is_main else -1
    try:
        yield heard
    finally:
        if is_main:
            signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(told)


def _look(
    folder: Path, silence: float, first: float, told: Callable[[Lost], None], heard: int, end: threading.Event
) -> None:
    seen = -1  # the last attempt whose lost rank was reported
    for number in count():
        if end.wait(LOOK):
            return
        lost = [one for beat in beats(folder) if (one := find_lost(beat, silence))]
        if number % SELDOM == 0:
            lost += [one for beat in without_beat(folder) if (one := find_lost(beat, first))]
        if _is_ending(heard):  # checked last: ranks that are dead by now were ended by that signal
            _wake(end)
            return
        longest = min((one for one in lost if one.beat.attempt > seen), key=lambda one: one.beat.at, default=None)
        if longest is None:
            continue
        seen = longest.beat.attempt
        told(longest)
        if longest.how != "died" and _is_alive(longest.beat):
            os.kill(longest.beat.pid, signal.SIGKILL)


def _is_ending(heard: int) -> bool:
    """Whether a signal that ends this process has arrived."""
    ready, _, _ = select.select([heard], [], [], 0)
    return bool(ready) and not ENDINGS.isdisjoint(os.read(heard, 4096))


def _wake(end: threading.Event) -> None:
    """A stopped rank cannot receive SIGTERM: keep resuming all ranks until the agent is done."""
    while True:
        for rank in ranks_below():
            with suppress(psutil.NoSuchProcess):
                rank.resume()
        if end.wait(LOOK):
            return


def without_beat(folder: Path) -> list[Beat]:
    """Heartbeats for the ranks that have not written one yet, dated at the start of their process."""
    known = {beat.pid for beat in beats(folder)}
    found = []
    for process in ranks_below():
        with suppress(psutil.Error, OSError):  # the process has just ended
            age, variables = time.time() - process.create_time(), process.environ()
            if process.pid not in known:
                place = int(variables["RANK"]), process.pid, birth_of(process), int(variables[ATTEMPT])
                found.append(Beat(*place, "", 0, "before its first heartbeat", time.monotonic() - age))
    return found


def ranks_below() -> list[psutil.Process]:
    """The processes that this process's elastic agent has started as ranks."""
    found = []
    for process in psutil.Process().children():
        with suppress(psutil.Error, OSError):
            if {"RANK", ATTEMPT} <= process.environ().keys():
                found.append(process)
    return found


def find_lost(beat: Beat, silence: float) -> Lost | None:
    """A Lost if the rank of this heartbeat is dead, or silent for longer than `silence` seconds; else None."""
    if beat.doing == AT_ITS_END:
        return None
    silent = max(time.monotonic() - beat.at, 0.0)
    if not _is_alive(beat):
        return Lost(beat, "died", silent)
    return Lost(beat, "fell silent", silent) if silent > silence else None


def _is_alive(beat: Beat) -> bool:
    try:
        process = psutil.Process(beat.pid)
        is_same = abs(birth_of(process) - beat.born) < SAME_BIRTH
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True)
class Goodput:
    """Seconds of a run by how they were spent. other: starts, restarts, waiting for checkpoints, interrupted steps."""

    counted: float
    twice: float
    detection: float
    other: float

    @property
    def share(self) -> float:
        """The fraction of all seconds that was spent on steps that counted."""
        return self.counted / (self.counted + self.twice + self.detection + self.other)

    def sentence(self) -> str:
        """A sentence for people."""
        return (
            f"goodput {self.share:.1%}: {self.counted:.1f} s of steps that counted; lost: {self.twice:.1f} s to "
            f"repeated steps, {self.detection:.1f} s to detection, {self.other:.1f} s to starts, checkpoints "
            "and the rest"
        )


def goodput(entries: Iterable[dict[str, Any]], *, seconds: float, detection: float = 0.0) -> Goodput:
    """Compute goodput from one run's log; if a step was repeated, its last row counts.

    seconds: duration of the whole run. detection: seconds from the last heartbeats of lost ranks until they were
    detected.
    """
    counted: dict[int, float] = {}
    done = 0.0
    for entry in entries:
        if "loss" in entry:
            counted[entry["step"]] = entry["seconds"]
            done += entry["seconds"]
    useful = sum(counted.values())
    return Goodput(useful, done - useful, detection, max(seconds - done - detection, 0.0))
