"""Measure how long ranks take to run a notebook's cells, which does not count against the answer's time limit.

Each rank sets a mark when its cells have been run, in memory that it shares only with the supervisor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from mmap import mmap

MOST_SECONDS = 20.0  # on an idle machine a page's cells take hundredths of a second
COMPLAINT = (
    f"After {MOST_SECONDS:g} s the cells of the notebook were still running, before your function was called. Code "
    "outside functions must finish quickly. A busy machine can also be the reason: try again."
)


class LoadingTime:
    """The loading time of one job: created before the ranks are forked, queried while they run."""

    def __init__(self, num_ranks: int) -> None:
        self._marks = [mmap(-1, 1) for _ in range(num_ranks)]
        self._began = time.monotonic()
        self._seconds: float | None = None

    def keep_own(self, rank: int) -> Callable[[], None]:
        """In a rank: close the others' marks, and return a function that sets its own."""
        mine = self._marks[rank]
        for number, mark in enumerate(self._marks):
            if number != rank:
                mark.close()

        def loaded() -> None:
            mine[0] = 1

        return loaded

    def seconds(self) -> float:
        """How long loading has taken so far, at most `MOST_SECONDS`, so that a missing mark gains no more time."""
        if self._seconds is None and all(mark[0] for mark in self._marks):
            self._seconds = time.monotonic() - self._began
        taken = self._seconds if self._seconds is not None else time.monotonic() - self._began
        return min(taken, MOST_SECONDS)

    def is_too_long(self) -> bool:
        """Whether some rank is still running cells after `MOST_SECONDS`."""
        return self._seconds is None and self.seconds() >= MOST_SECONDS

    def report(self, report: str | None) -> str:
        """The complaint, followed by the usual report of what each rank was doing."""
        return "\n".join([COMPLAINT, *(report or "").splitlines()[1:]])
