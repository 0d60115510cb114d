"""Durations of benchmarks: how long each took here last time, and the limits of those in the group `quick`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

FILE = Path(__file__).parents[1] / "build" / "benchmark-seconds.json"
QUICK = "quick"
LIMITS = {  # seconds on two cores, with margin; together at most ten minutes
    "warm-call": 60,
    "ring-all-reduce": 60,
    "hostile-headers": 60,
    "sandboxed-check": 60,
    "week01-grading": 60,
    "planner": 90,
    "cost-model": 180,
}


def last_times(path: Path = FILE) -> dict[str, float]:
    """Return the seconds of each benchmark when it last ran here; {} before the first run."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def remember(name: str, seconds: float, path: Path = FILE) -> str:
    """Store a benchmark's time for the next run; return a sentence about it. A full disk is not an error."""
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(last_times(path) | {name: round(seconds, 1)}, indent=1))
    except OSError:
        pass
    limit = LIMITS.get(name)
    late = f", more than the {limit} s that {QUICK} allows it" if limit and seconds > limit else ""
    return f"{name} took {seconds:.0f} s{late}"


def expected(names: Sequence[str], path: Path = FILE) -> str:
    """Return a sentence about how long these will take, as far as known."""
    known = LIMITS | last_times(path)
    sentence = f"{len(names)} benchmarks: about {sum(known.get(name, 0) for name in names) / 60:.1f} min"
    if unknown := [name for name in names if name not in known]:
        sentence += f", and {', '.join(unknown)}, up to a few minutes each, not timed here yet"
        sentence += f" (`python -m benchmarks {QUICK}` stays within {sum(LIMITS.values()) / 60:.1f} min)"
    return sentence
