"""A class of forty submits week 1; one command judges it, fills the gradebook and writes forty pages."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from nbgrader.api import Gradebook

from autograder import weeks
from autograder.authoring.course import copy_course, load_config
from autograder.demo import POINTS, WEEK, write_submission
from autograder.matrices import known
from benchmarks.row import Row, at_most

CLASS_SIZE = 40
WRONG_EVERY = 4  # every fourth submission has a known wrong answer, in a different exercise each time
GIGABYTES = 4.0


def measure() -> list[Row]:
    """Time one run of `autograder grade` with the number of judges that it chooses itself."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _lay_out(root)
        with _Peak() as memory:
            began = time.perf_counter()
            _grade(root)
            seconds = time.perf_counter() - began
        with Gradebook(load_config(root).CourseDirectory.db_url) as gradebook:
            points = sorted(one.score for one in gradebook.find_assignment(WEEK).submissions)
    if points[CLASS_SIZE // WRONG_EVERY :] != [POINTS] * (CLASS_SIZE - CLASS_SIZE // WRONG_EVERY):
        raise RuntimeError(f"correct submissions did not get full points: {points}")
    return [
        at_most(f"a class of {CLASS_SIZE} judged and published on two cores, s", seconds, 120),
        at_most("memory for grading it, GB", memory.taken / 1e9, GIGABYTES),
    ]


def _lay_out(root: Path) -> None:
    """Make a copy of the course with forty submissions."""
    copy_course(root)
    for number in range(CLASS_SIZE):
        answers = _wrong(number) if number % WRONG_EVERY == 0 else {}
        write_submission(root / "autograder" / "submitted", f"student-{number:02}", answers)


def _grade(root: Path) -> None:
    path = os.pathsep.join([str(root / "labs"), str(root)])
    command = [sys.executable, "-m", "autograder.cli", "grade", "week01"]
    subprocess.run(command, cwd=root, env=os.environ | {"PYTHONPATH": path}, check=True, capture_output=True)


def _wrong(number: int) -> dict[str, str]:
    """Return a submission with one known wrong answer."""
    chosen = weeks.of_week(WEEK)[number // WRONG_EVERY % len(weeks.of_week(WEEK))]
    wrong = [one.source for one in known.answers_of(chosen.exercise) if not one.is_right]
    return {chosen.exercise: wrong[number % len(wrong)]}


class _Peak:
    """The peak increase of the machine's memory use, in bytes, sampled every quarter second."""

    taken = 0

    def __enter__(self) -> _Peak:
        self._before, self._over = psutil.virtual_memory().used, threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._over.wait(0.25):
            self.taken = max(self.taken, psutil.virtual_memory().used - self._before)
