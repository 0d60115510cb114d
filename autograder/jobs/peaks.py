"""The most memory that each rank had at once, read by the supervisor: the kernel keeps the mark (VmHWM) outside of it.

A rank says, before the first line of student code, which process it is and what it holds already; the supervisor
subtracts. The mark never falls, and a rank stays until all have ended, so that the last look sees it whole. Linux.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress


class Peaks:
    """Open it before the ranks start, `note` in each of them, `look` while they run, read `of` after they end."""

    def __init__(self) -> None:
        self._notes_out, self._notes_in = os.pipe()
        self._known = set(os.listdir("/proc"))
        self._marks: dict[int, int] = {}  # by process number inside the job
        self._inherited = _bytes_of("self", "VmRSS")
        self._most_others = 0

    def keep_only_notes(self) -> None:
        """In a rank: it may write its one note."""
        os.close(self._notes_out)

    def note(self, rank: int) -> None:
        """In a rank, before any student code: its number, its process, the bytes that it holds."""
        os.write(self._notes_in, json.dumps([rank, os.getpid(), _bytes_of("self", "VmRSS")]).encode() + b"\n")
        os.close(self._notes_in)

    def look(self) -> None:
        """Read the mark of every process of the job."""
        for name in os.listdir("/proc"):
            if name.isdigit() and name not in self._known:
                with suppress(OSError, KeyError, ValueError):
                    facts = _status(name)
                    self._marks[int(facts["NSpid"].split()[-1])] = int(facts["VmHWM"].split()[0]) << 10

    def of(self, num_ranks: int) -> list[int | None]:
        """Bytes of each rank's peak above what it held at its note; None where that could not be read.

        What processes took that a rank started counts for every rank: nobody can say whose they were.
        """
        begins: dict[int, tuple[int, int]] = {}
        os.set_blocking(self._notes_out, False)
        with suppress(BlockingIOError):
            for line in os.read(self._notes_out, 1 << 16).splitlines():
                rank, process, num_bytes = json.loads(line)
                begins[rank] = process, num_bytes
        for descriptor in (self._notes_out, self._notes_in):
            os.close(descriptor)
        ranks = {process for process, _ in begins.values()}
        others = sum(max(0, mark - self._inherited) for process, mark in self._marks.items() if process not in ranks)
        peaks: list[int | None] = []
        for rank in range(num_ranks):
            process, begin = begins.get(rank, (0, 0))
            mark = self._marks.get(process)
            peaks.append(None if mark is None else max(0, mark - begin) + others)
        return peaks


def _status(process: str) -> dict[str, str]:
    with open(f"/proc/{process}/status") as file:
        return dict(line.split(":", 1) for line in file)


def _bytes_of(process: str, name: str) -> int:
    return int(_status(process)[name].split()[0]) << 10
