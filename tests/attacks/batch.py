"""A batch of attackers and honest students of a week, graded like a class: folders, grading, verdict files."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import suite
from honeypot import Honeypot, laid_out

from autograder import demo, weeks
from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.grading import grade
from autograder.grading.grade import SubmissionRecord
from autograder.judging.judge import Judge, JudgePool
from autograder.matrices import kill_matrix, known

WEEK = suite.WEEK
CASES = [case for case in suite.load() if case.exercise.startswith(WEEK.split("_", maxsplit=1)[0] + ".")]


@dataclass(frozen=True)
class Found:
    """The result of a batch: for each guarantee, a line per violation."""

    seconds: float
    undeserved: list[str]
    lost: list[str]
    left: list[str]
    harmed: list[str]

    @property
    def is_clean(self) -> bool:
        """Whether every guarantee was kept."""
        return not (self.undeserved or self.lost or self.left or self.harmed)


def grade_batch(folder: Path, attacks: Sequence[suite.Case], num_honest: int, seed: int) -> Found:
    """Submit every attack and `num_honest` right submissions to `folder`, grade them, and look for violations.

    An attack is the only answer in its notebook, or its notebook itself is broken.
    """
    root, submitted = _course(folder / "course"), folder / "submitted"
    before = _left()  # left by the sandbox of other tests
    submitted.mkdir()
    with laid_out(folder / "honeypot") as pot:
        by_student = {_hand_in(case, submitted, pot): case for case in attacks}
        honest = [_hand_in_honest(submitted, number) for number in range(num_honest)]
        began = time.monotonic()
        results = grade.grade(WEEK, submitted, root=root, students=[*by_student, *honest], seed=seed)
        seconds = time.monotonic() - began
    written = {one["student"]: one for one in results if one == _on_disk(root, one["student"])}
    return Found(
        seconds=seconds,
        undeserved=[line for name, case in by_student.items() if (line := _undeserved(case, written.get(name)))],
        lost=[line for name in (*by_student, *honest) if (line := _lost(name, written.get(name)))],
        left=[*(one for one in _left() if one not in before), *([] if pot.is_untouched else [str(pot)])],
        harmed=_harmed([written[name] for name in honest if name in written], submitted, seed),
    )


def _course(root: Path) -> Path:
    """Copy only the sources of the week: verdicts of a real class are stored elsewhere."""
    shutil.copytree(ROOT / "solutions" / WEEK, root / "solutions" / WEEK)
    shutil.copy(ROOT / "nbgrader_config.py", root)
    return root


def _hand_in(case: suite.Case, submitted: Path, pot: Honeypot) -> str:
    student = case.name.replace("/", "-")
    if case.is_malformed:
        suite.hand_in(case, submitted, student)
    else:
        source = suite.PREAMBLE + suite.source_of(case, pot.places)
        path = submitted / student / WEEK / f"{WEEK}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(suite.notebook_of({notebooks.grade_id(case.exercise): source})))
    return student


def _hand_in_honest(submitted: Path, number: int) -> str:
    """Submit the solution, with honest variants of the exercises selected by `number`."""
    answers = {}
    for check in weeks.of_week(WEEK):
        right = [one.source for one in known.answers_of(check.exercise) if one.is_right]
        if number and right:
            answers[check.exercise] = kill_matrix.PREAMBLE + right[number % len(right)]
    demo.write_submission(submitted, f"honest-{number:03}", answers)
    return f"honest-{number:03}"


def _undeserved(case: suite.Case, verdicts: SubmissionRecord | None) -> str | None:
    if verdicts is None:
        return None
    points = sum(exercise["points"] for exercise in verdicts["exercises"].values())
    if points <= case.points:
        return None
    return f"{case.name}: {points:g} points where {case.points:g} are expected: {verdicts['exercises'][case.exercise]}"


def _lost(student: str, verdicts: SubmissionRecord | None) -> str | None:
    """Return why a submission counts as lost: no verdict, a machine failure, an exercise without a sentence."""
    if verdicts is None:
        return f"{student}: no verdict file"
    for name, exercise in verdicts["exercises"].items():
        if exercise["fault"] or not exercise["text"].strip():
            return f"{student}, {name}: {exercise['text'] or 'no sentence'}"
    return None


def _harmed(honest: Sequence[SubmissionRecord], submitted: Path, seed: int) -> list[str]:
    """Return honest submissions without full points, or with a different verdict than when graded alone."""
    lines = []

    def judged_alone(judge: Judge, verdicts: SubmissionRecord) -> SubmissionRecord:
        return grade.grade_one(verdicts["student"], WEEK, submitted, judge, seed)["exercises"]

    with JudgePool(os.cpu_count() or 1) as pool:
        again = list(pool.map(judged_alone, honest))
    for verdicts, alone in zip(honest, again, strict=True):
        for name, exercise in verdicts["exercises"].items():
            if exercise["points"] < exercise["max"] or exercise != alone[name]:
                lines.append(f"{verdicts['student']}, {name}: {exercise} in the batch, alone {alone[name]}")
    return lines


def _on_disk(root: Path, student: str) -> SubmissionRecord | None:
    with suppress(OSError, ValueError):
        return json.loads((root / "autograder" / "verdicts" / student / f"{WEEK}.json").read_text())
    return None


def _left() -> list[str]:
    """Return sandbox processes, files that attacks named, and control groups of this process."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "autograder.jobs" in " ".join(process.cmdline()):
                found.append(f"process {process.pid} {process.name()}")
    found += [f"file {top}/{name}" for top in ("/tmp", "/dev/shm") for name in os.listdir(top) if "_attack" in name]
    return found + [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/sys602-{os.getpid()}-*")]
