"""The most memory that each rank had at once, read by the supervisor: the kernel keeps the mark (VmHWM) outside of it.

A rank says, before the first line of student code, which process it is and what it holds already; the supervisor
subtracts. The mark never falls, and an honest rank stays until all are ended: so whoever has no mark at some look, or
a lower one than before, has no peak. In such a job no rank can start processes or programs (see syscalls). Linux.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

INEXACT_BYTES = 8 << 20  # the kernel adds up its counters of each core now and then: a mark may seem to fall by that


class Peaks:
    """Open it before the ranks start, `note` in each of them, `look` while they run, read `of` after they end.

    The last look must come when all results have: then it sees everything that led to them.
    """

    def __init__(self) -> None:
        self._notes_out, self._notes_in = os.pipe()
        os.set_blocking(self._notes_out, False)
        self._others = set(os.listdir("/proc"))
        self._begins: dict[int, tuple[int, int]] = {}  # of each rank: its process, and the bytes that it held
        self._marks: dict[int, int | None] = {}  # by rank; None for good once there was none to read

    def keep_only_notes(self) -> None:
        """In a rank: it may write its one note."""
        os.close(self._notes_out)

    def note(self, rank: int) -> None:
        """In a rank, before any student code: its number, its process, the bytes that it holds."""
        held = _bytes_of(_status("self"), "VmRSS")
        os.write(self._notes_in, json.dumps([rank, os.getpid(), held]).encode() + b"\n")
        os.close(self._notes_in)

    def look(self) -> None:
        """Read the mark of every rank that has begun."""
        self._hear()
        marks = _marks(self._others) if self._begins else {}
        for rank, (process, _) in self._begins.items():
            self._marks[rank] = _higher(self._marks.get(rank, 0), marks.get(process))

    def of(self, num_ranks: int) -> list[int | None]:
        """Bytes of each rank's peak above what it held at its note; None where not every look saw its mark."""
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
    """The mark of a rank after another look: None if one is missing, or if it fell."""
    if before is None or now is None or now < before - INEXACT_BYTES:
        return None
    return max(before, now)


def _marks(others: set[str]) -> dict[int, int | None]:
    """The mark of each process but `others`, by its number in the job; None where its first thread is gone."""
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
