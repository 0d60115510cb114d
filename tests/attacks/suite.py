"""Hostile and broken submissions, one file per group with a cell for each: read, judge, look for leftovers.

A cell `# %% name` begins with a docstring: what the attack tries, then lines of `key: value`. `catalogue` is its number
in the list it comes from, `points` and `sentence` are the expected result; `timeout`, `cases` (first, all, part:NAME)
and `sealed: no` change how it is run. The rest of the cell is the student's cell, or in `malformed.py` a function
`hand_in(path, notebook)` that writes the submission. An attack that is not Python is a cell `# %% name [raw]`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from autograder import weeks
from autograder.authoring import percent
from autograder.grading.grade import grade_one
from autograder.judging.judge import Judge, Verdict

FOLDER = Path(__file__).parent
GROUPS = ("cheating", "crashing", "hanging", "reading", "tampering", "exhausting", "malformed")
WEEK = "week01_collectives"
SEED = 602
PREAMBLE = (
    "import math, os, time\nfrom contextlib import suppress\nimport torch\nimport torch.distributed as dist\n"
    "import shardlab\nfrom shardlab import meter\n"
)
HONEST = """  # EARLIER_STUDENTS_CODE
def exchange(tensor, *, group):
    partner = dist.get_rank(group) ^ 1
    received = torch.empty_like(tensor)
    work = dist.isend(tensor, group_dst=partner, group=group)
    dist.recv(received, group_src=partner, group=group)
    work.wait()
    return received
"""
RIGHT_BILL = """
def naive_all_reduce_bill(num_ranks, num_bytes):
    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes
"""


@dataclass(frozen=True)
class Case:
    """One attack and its expected outcome."""

    name: str  # group/name, as pytest shows it
    code: str
    story: str
    exercise: str
    points: float
    sentence: str
    catalogue: str = "own"
    timeout: float | None = None
    cases: str = "first"
    sealed: str = "yes"

    @property
    def group(self) -> str:
        """The name of its file."""
        return self.name.split("/")[0]

    @property
    def is_malformed(self) -> bool:
        """Whether its code writes a whole submission instead of being one cell."""
        return self.group == "malformed"


def load() -> list[Case]:
    """Load all cases, sorted by group and name."""
    return [_case(f"{group}/{name}", marks, code) for group in GROUPS for name, marks, code in cells(group)]


def cells(group: str) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield (name, header lines by key, code) of every attack of a group, sorted by name."""
    for cell in sorted(percent.named_cells(FOLDER / f"{group}.py"), key=lambda cell: cell.name):
        _, head, code = cell.text.split('"""', 2)
        story, *lines = head.strip().split("\n")
        marks = dict(line.split(": ", 1) for line in lines if ": " in line)
        yield cell.name, {"story": story} | marks, code.lstrip("\n")


def _case(name: str, marks: dict[str, Any], code: str) -> Case:
    numbers = {key: float(marks[key]) for key in ("points", "timeout") if key in marks}
    return Case(name=name, code=code, **(marks | numbers))


def source_of(case: Case, places: dict[str, str]) -> str:
    """Return the student's cell of a case; `places` are the words between @ signs in it."""
    return with_places(case.code, places)


def with_places(source: str, places: dict[str, str]) -> str:
    """Return a source with the words between @ signs replaced."""
    for word, value in places.items():
        source = source.replace(f"@{word}@", value)
    return source


def judge_case(case: Case, judge: Judge, folder: Path, places: dict[str, str]) -> Verdict:
    """Judge one case."""
    if case.is_malformed:
        return _judge_submission(case, judge, folder)
    source = source_of(case, places)
    check = weeks.find(case.exercise)
    if case.timeout is not None:
        check = replace(check, timeout=case.timeout)
    if case.sealed == "no":
        check = replace(check, makes_groups=True)
    chosen: Any = {"first": check.public[:1], "all": None}.get(case.cases)
    if case.cases.startswith("part:"):
        chosen = [c for c in check.public if c.get("part") == case.cases[5:]]
    return judge.judge(check, {"preamble": PREAMBLE, "cells": [[case.exercise, source, True]]}, SEED, chosen)


def _judge_submission(case: Case, judge: Judge, folder: Path) -> Verdict:
    student = case.name.split("/")[1]
    hand_in(case, folder / "submitted", student)
    graded = grade_one(student, WEEK, folder / "submitted", judge, SEED)["exercises"][case.exercise]
    return Verdict(case.exercise, graded["points"], graded["max"], graded["text"], graded["fault"])


def hand_in(case: Case, submitted: Path, student: str) -> None:
    """Write the submission of a `malformed` case."""
    path = submitted / student / WEEK / f"{WEEK}.ipynb"
    path.parent.mkdir(parents=True)
    space: dict[str, Any] = {"json": json, "os": os}
    exec(compile(case.code, case.name, "exec"), space)
    space["hand_in"](path, notebook_of({"week01-naive-bill": RIGHT_BILL}))


def notebook_of(answers: dict[str, str]) -> dict[str, Any]:
    """Return a notebook that contains only these answers and their test cells."""
    cells = []
    for name, source in answers.items():
        solution = {"grade_id": name, "solution": True, "grade": False, "locked": False, "schema_version": 3}
        test = {"grade_id": f"{name}-check", "solution": False, "grade": True, "locked": True, "schema_version": 3}
        cells.append({"cell_type": "code", "source": source, "metadata": {"nbgrader": solution}, "outputs": []})
        cells.append({"cell_type": "code", "source": "check()", "metadata": {"nbgrader": test}, "outputs": []})
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def wrong_with(case: Case, verdict: Verdict, secret: str) -> str | None:
    """Return what is unexpected about a verdict, or None."""
    if verdict.fault:
        return f"a fault of the machine: {verdict.text}"
    if verdict.points != case.points:
        return f"{verdict.points} points instead of {case.points}: {verdict.text}"
    if not verdict.text.strip() or (case.sentence != "-" and case.sentence not in verdict.text):
        return f"the sentence has no {case.sentence!r}: {verdict.text}"
    if "autograder/" in verdict.text and "jobs" in verdict.text:
        return f"a traceback of ours: {verdict.text}"
    if secret in verdict.text or "\x1b" in verdict.text:
        return f"it says too much: {verdict.text}"
    return None


def honest_answer(judge: Judge) -> str | None:
    """Return what is wrong with an honest answer's verdict in the sandbox that an attack has just used, or None."""
    check = weeks.find("week01.exchange")
    answer = {"preamble": PREAMBLE, "cells": [[check.exercise, HONEST, True]]}
    verdict = judge.judge(check, answer, SEED, check.public[:1])
    return None if verdict.is_right else f"the next answer got {verdict.points}: {verdict.text}"


def _processes(judge: Judge) -> list[str]:
    """Return the processes of a sandbox other than bubblewrap and the zygote."""
    if judge.zygote is None or not judge.zygote.is_alive:
        return []
    found = []
    for process in psutil.Process(judge.zygote.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.name() != "bwrap":
                found.append(f"process {process.pid} {process.name()} {process.status()}")
    return found[1:]


def asked_for(cases: Sequence[Case], request: pytest.FixtureRequest) -> list[Case]:
    """Return the cases that this run tests, as parameter `case`, in the module whose fixture asks."""
    tests = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    names = {item.callspec.params["case"].name for item in tests if "case" in item.fixturenames}
    return [case for case in cases if case.name in names]


def left_behind(judge: Judge, honeypot: Path) -> list[str]:
    """Return processes other than the zygote's two, files, and changes to the files set up for attackers."""
    deadline = time.monotonic() + 2  # Linux removes a job's namespaces only after its answer is read
    while (left := _processes(judge)) and time.monotonic() < deadline:
        time.sleep(0.01)
    left += [f"file {folder}/{n}" for folder in ("/tmp", "/dev/shm") for n in os.listdir(folder) if "_attack" in n]
    names = sorted(path.name for path in honeypot.iterdir())
    if names != ["gradebook.db", "socket"]:
        left.append(f"files beside the gradebook: {names}")
    return left
