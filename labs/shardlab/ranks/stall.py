"""Detect a deadlock before the timeout: every unfinished rank waits, and nothing makes progress."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from mmap import mmap
from pathlib import Path

from shardlab.meter import ledger

CERTAIN = 10  # samples in which every thread sleeps, with no new call, change of state or work between them
INTERVAL = 0.1  # seconds between two samples
IDLE_LOOKS = 5  # samples within one interval, to see whether a rank computes
WORK = 2_000_000  # nanoseconds of CPU time between two samples: gloo's idle thread takes 0.5 million, a transfer more


class StallWatch:
    """Watches the ledgers and the CPU time of ranks that have not finished.

    Ranks that wait for each other use no CPU time and are not in the run queue. A slow transfer or a rank that still
    computes uses CPU time, so neither is taken for a deadlock. Nor is a rank that is ready to run but gets no CPU
    because other processes use all of them. On systems that do not show the CPU time of other processes, nothing is
    ever reported.
    """

    def __init__(self, ledgers: Sequence[mmap]) -> None:
        self._ledgers = ledgers
        self._seen: object = None
        self._times: dict[int, int] = {}
        self._still = 0
        self._looked = time.monotonic()

    def is_certain(self, unfinished: dict[int, int]) -> bool:
        """Whether all ranks of {rank: process id} have waited without progress for ten samples: about a second.

        It counts samples, not seconds, because a suspended machine makes no progress but takes no samples either. On
        an overloaded machine, a sample with a thread that is ready to run does not count: it may still make progress.
        """
        now = time.monotonic()
        if not self._ledgers or not unfinished or now - self._looked < INTERVAL:
            return False
        self._looked = now
        states = {rank: ledger.peek(self._ledgers[rank]) for rank in unfinished}
        if not all(waits for _, waits in states.values()):
            self._seen = None
            return False
        times = {rank: _processor_time(pid) for rank, pid in unfinished.items()}
        worked = any(time - self._times.get(rank, 0) > WORK for rank, time in times.items())
        if worked or states != self._seen:
            self._still = 0
        elif all(_is_asleep(pid) for pid in unfinished.values()):
            self._still += 1
        self._seen, self._times = states, times
        return self._still >= CERTAIN


def idle(pids: Sequence[int]) -> set[int]:
    """The processes that compute nothing for a moment: in most samples the main thread waits for an event."""
    before = {pid: _processor_time(pid) for pid in pids}
    looks: Counter[int] = Counter()
    for _ in range(IDLE_LOOKS if pids else 0):
        time.sleep(INTERVAL / IDLE_LOOKS)
        looks.update(pid for pid in pids if _is_asleep(pid, main_thread=True))
    worked = {pid for pid in pids if _processor_time(pid) - before[pid] > 2 * WORK}
    return {pid for pid, asleep in looks.items() if pid not in worked and asleep > IDLE_LOOKS / 2}


def _processor_time(pid: int) -> int:
    """Nanoseconds of CPU time that a process has used; where the system does not say, the (ever-changing) time now."""
    if sys.platform == "linux":
        with suppress(OSError):
            return time.clock_gettime_ns((~pid << 3) | 2)  # Linux's CPU-time clock of another process
    return time.monotonic_ns()


def _is_asleep(pid: int, *, main_thread: bool = False) -> bool:
    """Whether every thread of a process waits for an event: none runs, is ready to run, or has been stopped.

    main_thread: look only at the main thread, since gloo's background thread wakes up now and then.

    If /proc does not show the process, returns True and leaves the decision to the CPU time.
    """
    try:
        shown = _pid_in_proc(pid)
        tasks = Path(f"/proc/{shown}/task")
        looked_at = [tasks / str(shown)] if main_thread else tasks.iterdir()
        threads = [(thread / "stat").read_text() for thread in looked_at] if shown else []
    except OSError:  # a thread ended meanwhile, which is progress
        return False
    return all(stat.rpartition(")")[2].split()[0] == "S" for stat in threads)


def _pid_in_proc(pid: int) -> int:
    """The process id under which /proc shows a process of ours; 0 or less if it does not.

    A sandboxed job has its own process namespace but sees the /proc of the enclosing one (proc(5), fdinfo).
    """
    descriptor = os.pidfd_open(pid)
    try:
        told = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    return next((int(line.split()[1]) for line in told if line.startswith("Pid:")), 0)
