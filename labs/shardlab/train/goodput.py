"""Goodput (有效吞吐): the share of the run's time spent on steps that counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Goodput:
    """Seconds of a run by how they were spent. other: starts, restarts, waiting for checkpoints, interrupted steps."""

    counted: float
    twice: float
    detection: float
    other: float

    @property
    def share(self) -> float:
        """The fraction of all seconds that was spent on steps that counted."""
        return self.counted / (self.counted + self.twice + self.detection + self.other)

    def sentence(self) -> str:
        """A sentence for people."""
        return (
            f"goodput {self.share:.1%}: {self.counted:.1f} s of steps that counted; lost: {self.twice:.1f} s to "
            f"repeated steps, {self.detection:.1f} s to detection, {self.other:.1f} s to starts, checkpoints "
            "and the rest"
        )


def goodput(entries: Iterable[dict[str, Any]], *, seconds: float, detection: float = 0.0) -> Goodput:
    """Compute goodput from one run's log; if a step was repeated, its last row counts.

    seconds: duration of the whole run. detection: seconds from the last heartbeats of lost ranks until they were
    detected.
    """
    counted: dict[int, float] = {}
    done = 0.0
    for entry in entries:
        if "loss" in entry:
            counted[entry["step"]] = entry["seconds"]
            done += entry["seconds"]
    useful = sum(counted.values())
    return Goodput(useful, done - useful, detection, max(seconds - done - detection, 0.0))
