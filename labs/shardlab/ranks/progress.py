"""Show the ranks' prints while they run, each line prefixed with its rank, and a sign of life in long calls."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from shardlab.terminal import printable

FIRST_SIGN = 5.0  # seconds between messages that a call is still running


class Progress:
    """Print complete lines of all ranks, each prefixed with its rank; report regularly that a long call still runs."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._partial: dict[int, str] = {}
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._give_signs, daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        for rank, text in sorted(self._partial.items()):
            if text:
                print(printable(f"[rank {rank}] {text}"))
        sys.stdout.flush()

    def show(self, rank: int, text: str) -> None:
        """Print the complete lines of `text` and keep the unfinished last one."""
        *lines, rest = (self._partial.get(rank, "") + text).split("\n")
        self._partial[rank] = rest
        if lines:
            print(printable("\n".join(f"[rank {rank}] {line}" for line in lines)), flush=True)

    def _give_signs(self) -> None:
        while not self._over.wait(FIRST_SIGN):
            seconds = time.monotonic() - self._began
            say(f"… still running after {seconds:.0f} s (at most {self._timeout:g} s)")


def say(text: str) -> None:
    """Print a message that is not part of a program's output."""
    print(text, file=sys.stdout if in_notebook() else sys.stderr, flush=True)


def in_notebook() -> bool:
    """Whether IPython runs this. It shows standard error in red; a program's standard output may have to be JSON."""
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None
