"""Links and devices that take known seconds on any machine.

Ranks that share cores cannot show how communication hides behind compute, or how long a pipeline idles. Ranks that
sleep can. Each kind of parallelism has its own `emulated.py`, which puts these two into its step.
"""

from __future__ import annotations

import ctypes
import sys
import time

_PR_SET_TIMERSLACK = 29  # of <linux/prctl.h>


class EmulatedLink:
    """A link of a chosen bandwidth, over which messages follow one another.

    Raises ValueError for a bandwidth that is not positive.
    """

    def __init__(self, bytes_per_second: float) -> None:
        if not bytes_per_second > 0:
            raise ValueError(f"nothing travels at {bytes_per_second} bytes per second: use more than 0")
        self.bytes_per_second = bytes_per_second
        self._free_at = 0.0

    def send(self, num_bytes: float) -> float:
        """When a message that is ready now has arrived, on the monotonic clock: give it to `sleep_until`."""
        self._free_at = max(self._free_at, time.monotonic()) + num_bytes / self.bytes_per_second
        return self._free_at


class EmulatedDevice:
    """A device that is busy for an exact time, one task after the other.

    A process wakes up to a millisecond late. A real device would have begun the next task meanwhile, from its queue;
    so a delay below `SLACK` is taken off the next sleep. Longer delays count as waiting.
    """

    SLACK = 1e-3

    def __init__(self) -> None:
        self._free_at = 0.0
        if sys.platform == "linux":  # else Linux wakes this thread up to 50 microseconds later than it was asked to
            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1))

    def work(self, seconds: float) -> None:
        """Be busy for `seconds`."""
        now = time.monotonic()
        begin = self._free_at if now - self._free_at < self.SLACK else now
        self._free_at = begin + seconds
        sleep_until(self._free_at)


def sleep_until(moment: float) -> None:
    """Return at this moment of the monotonic clock, or at once where it has passed."""
    time.sleep(max(0.0, moment - time.monotonic()))
