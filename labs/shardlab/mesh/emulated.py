"""Links and devices that take a known time on any machine.

Ranks that share cores cannot show how communication overlaps computation, or how long a pipeline idles. Ranks that
sleep instead of computing can. Each kind of parallelism has its own `emulated.py`, which uses these two in its step.
"""

from __future__ import annotations

import ctypes
import sys
import time

_PR_SET_TIMERSLACK = 29  # of <linux/prctl.h>


class EmulatedLink:
    """A link with a given bandwidth that carries one message at a time.

    Raises ValueError for a bandwidth that is not positive.
    """

    def __init__(self, bytes_per_second: float) -> None:
        if not bytes_per_second > 0:
            raise ValueError(f"a link cannot send {bytes_per_second} bytes per second: use more than 0")
        self.bytes_per_second = bytes_per_second
        self._free_at = 0.0

    def send(self, num_bytes: float) -> float:
        """When a message that is ready now will have arrived, on the monotonic clock; pass it to `sleep_until`."""
        self._free_at = max(self._free_at, time.monotonic()) + num_bytes / self.bytes_per_second
        return self._free_at


class EmulatedDevice:
    """A device that runs tasks of an exact duration, one after another.

    A process may wake up to a millisecond late, when a real device would already have taken the next task from its
    queue. A delay below `SLACK` is therefore subtracted from the next sleep; longer delays count as waiting.
    """

    SLACK = 1e-3

    def __init__(self) -> None:
        self._free_at = 0.0
        if sys.platform == "linux":  # without this, Linux may wake the thread up to 50 microseconds late
            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1))

    def work(self, seconds: float) -> None:
        """Be busy for `seconds`."""
        now = time.monotonic()
        begin = self._free_at if now - self._free_at < self.SLACK else now
        self._free_at = begin + seconds
        sleep_until(self._free_at)


def sleep_until(moment: float) -> None:
    """Return at this moment of the monotonic clock, or immediately if it has passed."""
    time.sleep(max(0.0, moment - time.monotonic()))
