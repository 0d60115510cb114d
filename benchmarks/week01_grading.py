"""Grade one submission of week 1, from its notebook to its verdicts."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from autograder.demo import WEEK, write_submission
from autograder.grading.grade import grade_one
from autograder.judging.judge import Judge
from benchmarks.row import Row, at_most

ROUNDS = 3


def measure() -> list[Row]:
    """Return seconds with a sandbox started for this submission alone, as for the first of a class."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        write_submission(Path(folder), "right", {})
        for round_number in range(ROUNDS):
            began = time.perf_counter()
            with Judge() as judge:
                verdicts = grade_one("right", WEEK, Path(folder), judge, seed=round_number)
            seconds.append(time.perf_counter() - began)
            wrong = {n: e["text"] for n, e in verdicts["exercises"].items() if e["points"] < e["max"]}
            if wrong:
                raise RuntimeError(f"the solution did not get full points: {wrong}")
    return [at_most("one submission of week 1 graded, s", median(seconds), 15)]
