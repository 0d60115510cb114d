"""Print the matrices and the results of the course's own solutions, and write the two long matrices as Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table

from autograder.matrices import forged, kill_matrix, own_solutions, stability
from autograder.matrices.kept import Row
from autograder.terminal import console


def print_kill_matrix(weeks: list[str] | None) -> bool:
    """Judge all known answers and print them by exercise, then the wrong answers that pass the visible check.

    Returns True if every answer got the expected result, the visible check rejects enough wrong answers, and each wrong
    answer that passes it states a reason.
    """
    table = Table("exercise", "wrong, dead", "dead in sight", "right, alive", "not as expected", title="Kill matrix")
    judged = list(kill_matrix.rows(weeks))
    for exercise in dict.fromkeys(row.exercise for row in judged):
        mine = [row for row in judged if row.exercise == exercise]
        dead = sum(not (row.must_live or row.lived) for row in mine)
        alive = sum(row.must_live and row.lived for row in mine)
        bad = [f"{row.name} {'lived' if row.lived else 'died'}" for row in mine if not row.ended_as_expected]
        seen = sum(row.in_sight for row in mine)
        table.add_row(exercise, str(dead), str(seen), str(alive), ", ".join(bad) or "–")
    console.print(table)
    for row in (row for row in judged if not (row.must_live or row.in_sight)):
        console.print(f"Not in sight: {row.exercise} {row.name}: {row.reason or 'no reason given'}", soft_wrap=True)
    share, due = kill_matrix.share_in_sight(judged), sum(row.ended_as_expected for row in judged)
    console.print(f"{due} of {len(judged)} ended as expected; {share:.1%} of the wrong ones die in sight.")
    return due == len(judged) and share >= kill_matrix.IN_SIGHT and not any(row.is_unexplained for row in judged)


def print_own_solutions(rows: Sequence[own_solutions.WeekResult]) -> bool:
    """Print a line per week and seed with the exercises that lost points; returns True if none did."""
    table = Table("week", "seed", "points", "of", "lost", title="The course's own solutions, submitted")
    for row in rows:
        table.add_row(row.week, str(row.seed), f"{row.points:g}", f"{row.max:g}", "\n".join(row.lost) or "–")
    full = sum(not row.lost for row in rows)
    console.print(table, f"{full} of {len(rows)} got every automatic point.")
    return full == len(rows)


def print_forged(rows: Iterable[Row]) -> list[Row]:
    """Print each row whose forgery earned points as soon as it is judged, then the total; returns all rows."""
    seen = []
    for row in rows:
        seen.append(row)
        if forged.is_undeserved(row):
            gain = f"{row['alone']:g} points alone, {row['forged']:g} behind {row['forgery']}"
            console.print(f"{row['exercise']} {row['answer']}: {gain}", soft_wrap=True)
    console.print(f"{_forged_total(seen)}.")
    return seen


def print_stability(rows: Iterable[Row]) -> list[Row]:
    """Print each answer whose points differ, by seed, then the total; returns all rows."""
    seen = []
    for row in rows:
        seen.append(row)
        if stability.differs(row):
            console.print(f"{row['exercise']} {row['answer']}: {_by_seed(row)}", soft_wrap=True)
    judgments = sum(len(row["points"]) for row in seen)
    differing = sum(map(stability.differs, seen))
    console.print(f"{differing} answers whose points differ between seeds, of {len(seen)} in {judgments} judgments.")
    return seen


def write_forged(rows: Sequence[Row], path: Path) -> None:
    """Write the forged matrix by exercise, as Markdown."""
    head = "| exercise | wrong answers | forgeries | rows | undeserved |\n|---|---|---|---|---|"
    lines = []
    for exercise in dict.fromkeys(row["exercise"] for row in rows):
        mine = [row for row in rows if row["exercise"] == exercise]
        names = [len({row[key] for row in mine}) for key in ("answer", "forgery")]
        lines.append(f"| {exercise} | {names[0] - 1} | {names[1]} | {len(mine)} | {_undeserved(mine)} |")
    told = (
        "Every wrong answer, and one right answer per exercise, behind every forgery of "
        "`autograder/matrices/forgeries.py`. Made by `make forged-matrix`."
    )
    _write(path, "Forged matrix", told, [head, *lines], f"{_forged_total(rows)}.")


def write_stability(rows: Sequence[Row], path: Path) -> None:
    """Write the stability of points by exercise, as Markdown."""
    head = "| exercise | answers | judgments | whose points differ |\n|---|---|---|---|"
    lines = []
    for exercise in dict.fromkeys(row["exercise"] for row in rows):
        mine = [row for row in rows if row["exercise"] == exercise]
        bad = "; ".join(f"{row['answer']}: {_by_seed(row)}" for row in mine if stability.differs(row))
        lines.append(f"| {exercise} | {len(mine)} | {sum(len(row['points']) for row in mine)} | {bad or '–'} |")
    total = sum(map(stability.differs, rows))
    told = "Every known answer under many seeds, which must not change its points. Made by `make stability`."
    _write(path, "Stability of points", told, [head, *lines], f"{total} answers whose points differ between seeds.")


def _write(path: Path, title: str, told: str, table: list[str], total: str) -> None:
    machine = f"{os.cpu_count()} cores, {os.uname().sysname} {os.uname().release.split('-')[0]}"
    text = "\n".join([f"# {title}\n", f"{told} Judged on {machine}.\n", *table, "", f"**{total}**", ""])
    path.write_text(text)


def _forged_total(rows: Sequence[Row]) -> str:
    broken = sum(map(forged.is_broken, rows))
    undeserved = sum(map(forged.is_undeserved, rows))
    counts = f"{undeserved} undeserved, in {len(rows)} rows"
    return f"{counts}; right answers lose points behind a forgery in {broken} rows"


def _undeserved(rows: Sequence[Row]) -> str:
    found = [f"{row['answer']} behind {row['forgery']}" for row in rows if forged.is_undeserved(row)]
    return "; ".join(found) or "–"


def _by_seed(row: Row) -> str:
    """Format points by seed: `3 under seeds 1, 2, 4; 1.5 under seeds 3`."""
    seeds: dict[float, list[str]] = {}
    for seed, points in enumerate(row["points"], 1):
        if points is not None:
            seeds.setdefault(points, []).append(str(seed))
    return "; ".join(f"{points:g} under seeds {', '.join(mine)}" for points, mine in seeds.items())
