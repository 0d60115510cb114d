"""Watch what all ranks of a job take together, where no control group does: memory and the number of processes.

The supervisor looks every twentieth of a second, and ends the job when it has taken too much.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

MOST_PROCESSES = 200
INTERVAL = 0.05
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Called at every turn of the supervisor's loop; `complaint` says what was too much.

    Counts the processes that appear in /proc after it was made, so it is of use only in namespaces of the job's own.
    What a process shares with the zygote it was forked from is not counted.
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
            return f"More than {MOST_PROCESSES} processes were started, and all were ended."
        taken = sum(max(0, _own_bytes(name) - self._inherited) for name in new)
        if taken <= self._most:
            return None
        whose = "all ranks together" if self._num_ranks > 1 else "the answer"
        return f"The limit of memory, {self._most / 1e9:.1f} GB for {whose}, was passed, and everything was ended."


def _own_bytes(process: str) -> int:
    """Bytes of memory that a process has for itself: what is resident and not a file's."""
    with suppress(OSError, ValueError), open(f"/proc/{process}/statm") as file:
        _, resident, shared, *_ = file.read().split()
        return (int(resident) - int(shared)) * _PAGE
    return 0
