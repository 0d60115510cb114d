"""The two long matrices as a terminal and a page of Markdown show them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from autograder.matrices import forged, stability
from autograder.matrices.kept import Row

console = Console()


def print_forged(rows: Iterable[Row]) -> list[Row]:
    """Print each row whose lie earned points as soon as it is known, then how many did; returns all rows."""
    seen = []
    for row in rows:
        seen.append(row)
        if forged.is_undeserved(row):
            gain = f"{row['alone']:g} points alone, {row['forged']:g} behind {row['forgery']}"
            console.print(f"{row['exercise']} {row['answer']}: {gain}", soft_wrap=True)
    console.print(f"{_forged_total(seen)}.")
    return seen


def print_stability(rows: Iterable[Row]) -> list[Row]:
    """Print each answer whose points differ, seed by seed, then how many do; returns all rows."""
    seen = []
    for row in rows:
        seen.append(row)
        if stability.differs(row):
            console.print(f"{row['exercise']} {row['answer']}: {_by_seed(row)}", soft_wrap=True)
    judgements = sum(len(row["points"]) for row in seen)
    differing = sum(map(stability.differs, seen))
    console.print(f"{differing} answers whose points differ between seeds, of {len(seen)} in {judgements} judgements.")
    return seen


def write_forged(rows: Sequence[Row], path: Path) -> None:
    """The forged matrix by exercise, as Markdown."""
    head = "| exercise | wrong answers | forgeries | rows | undeserved |\n|---|---|---|---|---|"
    lines = []
    for exercise in dict.fromkeys(row["exercise"] for row in rows):
        mine = [row for row in rows if row["exercise"] == exercise]
        names = [len({row[key] for row in mine}) for key in ("answer", "forgery")]
        lines.append(f"| {exercise} | {names[0] - 1} | {names[1]} | {len(mine)} | {_undeserved(mine)} |")
    told = (
        "Every wrong answer behind every forgery of `autograder/forgeries`, and one right answer. `make forged-matrix`."
    )
    _write(path, "Forged matrix", told, [head, *lines], f"{_forged_total(rows)}.")


def write_stability(rows: Sequence[Row], path: Path) -> None:
    """The stability of points by exercise, as Markdown."""
    head = "| exercise | answers | judgements | whose points differ |\n|---|---|---|---|"
    lines = []
    for exercise in dict.fromkeys(row["exercise"] for row in rows):
        mine = [row for row in rows if row["exercise"] == exercise]
        bad = "; ".join(f"{row['answer']}: {_by_seed(row)}" for row in mine if stability.differs(row))
        lines.append(f"| {exercise} | {len(mine)} | {sum(len(row['points']) for row in mine)} | {bad or '–'} |")
    total = sum(map(stability.differs, rows))
    told = "Every kept answer under many seeds: points must be the same. `make stability`."
    _write(path, "Stability of points", told, [head, *lines], f"{total} answers whose points differ between seeds.")


def _write(path: Path, title: str, told: str, table: list[str], total: str) -> None:
    machine = f"{os.cpu_count()} cores, {os.uname().sysname} {os.uname().release.split('-')[0]}"
    text = "\n".join([f"# {title}\n", f"{told} Judged on {machine}.\n", *table, "", f"**{total}**", ""])
    path.write_text(text)


def _forged_total(rows: Sequence[Row]) -> str:
    broken = sum(map(forged.is_broken, rows))
    undeserved = sum(map(forged.is_undeserved, rows))
    return f"{undeserved} undeserved, in {len(rows)} rows; {broken} times a right answer loses points behind a lie"


def _undeserved(rows: Sequence[Row]) -> str:
    found = [f"{row['answer']} behind {row['forgery']}" for row in rows if forged.is_undeserved(row)]
    return "; ".join(found) or "–"


def _by_seed(row: Row) -> str:
    """`3 under seeds 1, 2, 4; 1.5 under seeds 3`."""
    seeds: dict[float, list[str]] = {}
    for seed, points in enumerate(row["points"], 1):
        if points is not None:
            seeds.setdefault(points, []).append(str(seed))
    return "; ".join(f"{points:g} under seeds {', '.join(mine)}" for points, mine in seeds.items())
