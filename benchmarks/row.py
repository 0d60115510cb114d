"""One row of the table: our measurement, a peer measured in the same run, and the target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """`ours` and `peer` are medians in the unit at the end of `name`; `ratio` says how many times better ours is."""

    name: str
    ours: float
    peer: float | None
    ratio: float | None
    bar: str
    met: bool


def at_most(name: str, ours: float, most: float, peer: float | None = None) -> Row:
    """Return a row whose `ours` must not exceed a number; less is better."""
    return Row(name, ours, peer, peer / ours if peer and ours else None, f"at most {most:g}", ours <= most)


def at_least_times(name: str, ours: float, peer: float, times: float) -> Row:
    """Return a row of two durations; ours must be at least `times` as fast as the peer's."""
    return Row(name, ours, peer, peer / ours, f"ratio at least {times:g}", peer / ours >= times)
