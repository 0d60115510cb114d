"""A class of forty hands in week 1: right answers, wrong ones, hangs; judged on all cores."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from autograder import known, weeks
from autograder.cluster import judge_all
from autograder.course import ROOT
from autograder.demo import WEEK, write_submission
from autograder.dossier import open_dossier
from benchmarks.row import Row, at_most

CLASS_SIZE = 40
WORKERS = 3  # one more than there are cores: a judge often waits for the kernel to make or end namespaces
WRONG_EVERY = 4  # one in four hands in a known wrong answer for each of its exercises in turn


def measure() -> list[Row]:
    """One run, sandboxes started within it."""
    with tempfile.TemporaryDirectory() as folder:
        submitted = Path(folder)
        for number in range(CLASS_SIZE):
            write_submission(submitted, f"student-{number:02}", _wrong(number) if number % WRONG_EVERY == 0 else {})
        began = time.perf_counter()
        dossiers = [open_dossier(path.name, WEEK, submitted, ROOT) for path in sorted(submitted.iterdir())]
        points = [sum(v.points for v in judged.verdicts) for _, judged in judge_all(dossiers, 1, workers=WORKERS)]
        seconds = time.perf_counter() - began
    if sorted(points)[CLASS_SIZE // WRONG_EVERY :] != [17] * (CLASS_SIZE - CLASS_SIZE // WRONG_EVERY):
        raise RuntimeError(f"right submissions were not given full points: {sorted(points)}")
    return [
        at_most(f"a class of {CLASS_SIZE} on two cores, s", seconds, 120),
        at_most("one submission of it, s", seconds / CLASS_SIZE, 3),
    ]


def _wrong(number: int) -> dict[str, str]:
    """A submission with one known wrong answer."""
    chosen = weeks.of_week(WEEK)[number // WRONG_EVERY % len(weeks.of_week(WEEK))]
    wrong = [one.source for one in known.answers_of(chosen.exercise) if not one.is_right]
    return {chosen.exercise: wrong[number % len(wrong)]}
