"""Goodput (有效吞吐): the share of all seconds that went into steps that counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Goodput:
    """Seconds of a run by what became of them. other: starts, restarts, waiting for checkpoints, a step cut short."""

    counted: float
    twice: float
    detection: float
    other: float

    @property
    def share(self) -> float:
        """Of steps that counted in all seconds."""
        return self.counted / (self.counted + self.twice + self.detection + self.other)

    def sentence(self) -> str:
        """As people read it."""
        return (
            f"goodput {self.share:.1%}: {self.counted:.1f} s of steps that counted; lost: {self.twice:.1f} s to steps "
            f"done twice, {self.detection:.1f} s to detection, {self.other:.1f} s to starts, checkpoints and the rest"
        )


def goodput(entries: Iterable[dict[str, Any]], *, seconds: float, detection: float = 0.0) -> Goodput:
    """From the lines of one run's log; of a step that was done again, the last row counts. seconds: of the whole run.

    detection: seconds from the last heartbeats of lost ranks until they were seen.
    """
    counted: dict[int, float] = {}
    done = 0.0
    for entry in entries:
        if "loss" in entry:
            counted[entry["step"]] = entry["seconds"]
            done += entry["seconds"]
    useful = sum(counted.values())
    return Goodput(useful, done - useful, detection, max(seconds - done - detection, 0.0))
