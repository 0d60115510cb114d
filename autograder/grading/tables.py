"""The points of a class as a table, for `--json` and WEEK.csv."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.grading.verdict_files import SubmissionRecord, read_class, total
from autograder.reading.names import cell

SHOWN = ("points", "max", "text")  # of each exercise


def summary(verdicts: Sequence[SubmissionRecord]) -> list[dict[str, Any]]:
    """Return the content of `--json`: for each student and exercise, points, max and text."""
    rows = []
    for one in verdicts:
        points, most = total(one)
        exercises = {name: {key: found[key] for key in SHOWN} for name, found in one["exercises"].items()}
        rows.append({"student": one["student"], "points": points, "max": most, "exercises": exercises})
    return rows


def write_class(week: str, now: Sequence[SubmissionRecord], path: Path, root: Path) -> None:
    """Write one line per student who has a verdict from this run or an earlier one; the write is atomic."""
    by_student = {one["student"]: one for one in [*read_class(week, root), *now]}
    draft = path.with_suffix(".csv.part")
    write_csv([by_student[student] for student in sorted(by_student)], draft)
    draft.replace(path)


def write_csv(verdicts: Sequence[SubmissionRecord], path: Path) -> None:
    """Write one line per student and one column per exercise, points only; nbgrader's own export has manual cells."""
    names = list(dict.fromkeys(name for one in verdicts for name in one["exercises"]))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["student", *names, "points", "max"])
        for row in summary(verdicts):
            points = [row["exercises"].get(name, {"points": ""})["points"] for name in names]
            writer.writerow([cell(row["student"]), *points, row["points"], row["max"]])
