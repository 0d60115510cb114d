"""Draw who reviews whose project."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from random import Random

from autograder.reading.names import cell

COLUMNS = ("reviewer", "reads the project of")


def pairs(students: Sequence[str], reviews: int, seed: int) -> list[tuple[str, str]]:
    """Pair each student with `reviews` others, in both roles; no two students review each other if there are enough.

    The students are put on a circle in random order, and each reviews the next ones. Raises ValueError if there are too
    few students.
    """
    if reviews < 1:
        raise ValueError(f"each student writes at least one review, not {reviews}")
    if len(students) <= reviews:
        raise ValueError(f"{len(students)} projects are too few for {reviews} reviews by each student: ask for fewer")
    circle = sorted(students)
    Random(seed).shuffle(circle)
    return [
        (reviewer, circle[(place + step) % len(circle)])
        for place, reviewer in enumerate(circle)
        for step in range(1, reviews + 1)
    ]


def write(found: Sequence[tuple[str, str]], path: Path) -> None:
    """Write the pairs as CSV, sorted by reviewer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *sorted(tuple(map(cell, pair)) for pair in found)])
