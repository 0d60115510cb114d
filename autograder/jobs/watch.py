"""Limit the memory and the number of processes of all ranks of a job together, where no control group does it.

The supervisor measures 20 times per second, and ends the job when it exceeds a limit.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

MOST_PROCESSES = 200
INTERVAL = 0.05
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Called in every iteration of the supervisor's loop; `complaint` says which limit was exceeded.

    It counts processes that appear in /proc after its creation, so the job needs its own PID namespace.
    Memory that a process shares with the zygote is not counted.
    """

    def __init__(self, memory_bytes: int, num_ranks: int) -> None:
        self.complaint: str | None = None
        self._most = memory_bytes
        self._num_ranks = num_ranks
        self._known = set(os.listdir("/proc"))
        self._inherited = _own_bytes("self")
        self._looked = 0.0

    def __call__(self) -> bool:
        """Whether the job must end."""
        now = time.monotonic()
        if self.complaint is None and now - self._looked >= INTERVAL:
            self._looked = now
            self.complaint = self._look()
        return self.complaint is not None

    def _look(self) -> str | None:
        new = [name for name in os.listdir("/proc") if name.isdigit() and name not in self._known]
        if len(new) > MOST_PROCESSES:
            return f"More than {MOST_PROCESSES} processes were started, so the job was ended."
        taken = sum(max(0, _own_bytes(name) - self._inherited) for name in new)
        if taken <= self._most:
            return None
        whose = "all ranks together" if self._num_ranks > 1 else "the answer"
        return f"The memory limit of {self._most / 1e9:.1f} GB for {whose} was exceeded, so the job was ended."


def _own_bytes(process: str) -> int:
    """Bytes of a process's private memory: resident and not file-backed."""
    with suppress(OSError, ValueError), open(f"/proc/{process}/statm") as file:
        _, resident, shared, *_ = file.read().split()
        return (int(resident) - int(shared)) * _PAGE
    return 0
