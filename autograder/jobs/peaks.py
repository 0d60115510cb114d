"""Each rank's peak memory, read by the supervisor from the kernel's high-water mark (VmHWM).

Before the first line of student code, a rank reports its process id and its current memory, which the supervisor
subtracts. The mark never falls, and an honest rank stays alive until all ranks are ended, so a rank whose mark is ever
missing or falls gets no peak. In such a job, ranks cannot start processes or programs (see `syscalls`). Linux only.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

INEXACT_BYTES = 8 << 20  # the kernel sums per-core counters only occasionally: a mark may seem to fall by this


class Peaks:
    """Create it before the ranks start; call `note` in each rank, `look` while they run, and `of` after they end.

    The last `look` must come after all results have arrived, so that it covers everything that produced them.
    """

    def __init__(self) -> None:
        self._notes_out, self._notes_in = os.pipe()
        os.set_blocking(self._notes_out, False)
        self._others = set(os.listdir("/proc"))
        self._begins: dict[int, tuple[int, int]] = {}  # {rank: (its process, the bytes that it held)}
        self._marks: dict[int, int | None] = {}  # by rank; stays None once a mark was missing

    def keep_only_notes(self) -> None:
        """In a rank: keep only the writing end, for its one note."""
        os.close(self._notes_out)

    def note(self, rank: int) -> None:
        """In a rank, before any student code: write down its number, its process and the bytes that it holds."""
        held = _bytes_of(_status("self"), "VmRSS")
        os.write(self._notes_in, json.dumps([rank, os.getpid(), held]).encode() + b"\n")
        os.close(self._notes_in)

    def look(self) -> None:
        """Read the mark of every rank that has started."""
        self._hear()
        marks = _marks(self._others) if self._begins else {}
        for rank, (process, _) in self._begins.items():
            self._marks[rank] = _higher(self._marks.get(rank, 0), marks.get(process))

    def of(self, num_ranks: int) -> list[int | None]:
        """Each rank's peak in bytes above its memory at the note; None if any `look` did not find its mark."""
        for descriptor in (self._notes_out, self._notes_in):
            os.close(descriptor)
        return [self._peak(rank) for rank in range(num_ranks)]

    def _peak(self, rank: int) -> int | None:
        mark = self._marks.get(rank)
        return None if mark is None else max(0, mark - self._begins[rank][1])

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            for line in os.read(self._notes_out, 1 << 16).splitlines():
                rank, process, num_bytes = json.loads(line)
                self._begins[rank] = process, num_bytes


def _higher(before: int | None, now: int | None) -> int | None:
    """A rank's mark after another look; None if a mark is missing or fell."""
    if before is None or now is None or now < before - INEXACT_BYTES:
        return None
    return max(before, now)


def _marks(others: set[str]) -> dict[int, int | None]:
    """The mark of each process except `others`, by its PID in the job; None if its first thread has ended."""
    found: dict[int, int | None] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and name not in others:
            with suppress(OSError):
                facts = _status(name)
                found[int(facts["NSpid"].split()[-1])] = _bytes_of(facts, "VmHWM") if "VmHWM" in facts else None
    return found


def _status(process: str) -> dict[str, str]:
    with open(f"/proc/{process}/status") as file:
        return dict(line.split(":", 1) for line in file)


def _bytes_of(facts: dict[str, str], name: str) -> int:
    return int(facts[name].split()[0]) << 10
