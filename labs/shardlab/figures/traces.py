"""Traces of a profiler that a page draws, kept in the package: a student has no GPU to make them with."""

from pathlib import Path

KEPT = Path(__file__).parent / "data"  # kernels of one H200; `benchmarks/profiler_traces.py` makes and copies them
# A sandbox shows a rank this package, and nothing in it may look like a week's checks: hence "of-".


def kept_traces(week: str) -> list[Path]:
    """The files of a week, "week07", one per rank in order. Raises ValueError that lists the weeks there are."""
    found = sorted(KEPT.glob(f"of-{week}-rank*.json.gz"))
    if not found:
        there = sorted({path.name.split("-")[1] for path in KEPT.glob("of-week*-rank*.json.gz")})
        raise ValueError(f"no traces of {week!r} are kept: use {' or '.join(there)}")
    return found
