"""Every attack gets only the points it earned and a sentence, and leaves class, gradebook and host unchanged."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import suite
from honeypot import SECRET, Honeypot, laid_out
from nbgrader.api import Gradebook

from autograder import weeks
from autograder.authoring.course import ROOT, load_config
from autograder.grading import grade, publishing
from autograder.judging.judge import Judge, JudgePool

CASES = suite.load()
CATALOGUE = set(
    """
    A01 A02 A03 A04 A06 A07 A08 A09 A11 A12 A13 A14 A16 A17 A19 A21 B01 B02 B03 B04 B05 B07 B09 B10 C01 C02 C03 C04
    C05 C07 C09 C10 C11 C13 D01 D02 D03 D04 D06 D07 D09 D10 E01 E03 E04 E05 E06 E07 E08 E10 E11 E13 F01 F02 F03 F04
    F06 F08 F10 G01 G03 G04 G06 G07 G08 G11 G13 G14
    """.split()  # noqa: SIM905
)
pytestmark = [pytest.mark.timeout(600), pytest.mark.isolated(3)]


def sandboxes() -> set[str]:
    """Return this process's sandbox resources: processes and control groups."""
    processes = {str(one.pid) for one in psutil.Process().children(recursive=True) if "bwrap" in one.name()}
    return processes | {str(path) for path in Path("/sys/fs/cgroup").glob(f"*/sys602-{os.getpid()}-*")}


@dataclass
class Run:
    """The result of running all cases."""

    honeypot: Honeypot
    wrong: dict[str, str | None] = field(default_factory=dict)
    after: dict[str, str | None] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=dict)
    before: set[str] = field(default_factory=sandboxes)  # owned by the judge that other tests use


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run all requested cases, two at a time, each followed by an honest answer in the same sandbox."""
    folder = tmp_path_factory.mktemp("attacks")
    with laid_out(folder / "honeypot") as pot:
        result = Run(pot)

        def attack(judge: Judge, case: suite.Case) -> None:
            verdict = suite.judge_case(case, judge, folder, pot.places)
            result.wrong[case.name] = suite.wrong_with(case, verdict, SECRET)
            result.left[case.name] = suite.left_behind(judge, pot.folder)
            result.after[case.name] = suite.honest_answer(judge)

        with JudgePool(2) as pool:
            list(pool.map(attack, suite.asked_for(CASES, request)))
    yield result


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_gets_what_it_has_earned_and_a_sentence(run: Run, case: suite.Case):
    assert run.wrong[case.name] is None
    assert run.left[case.name] == []
    assert run.after[case.name] is None


def test_the_catalogue_is_covered_and_more():
    assert sorted({case.catalogue for case in CASES} - {"own"}) == sorted(CATALOGUE)
    assert sum(case.catalogue == "own" for case in CASES) >= 30
    assert {case.group for case in CASES} == set(suite.GROUPS)


def test_the_host_is_as_it_was(run: Run):
    assert run.honeypot.is_untouched, run.honeypot
    assert sandboxes() <= run.before


def test_a_rank_may_do_what_honest_code_does(judge: Judge):
    """What is closed to attackers must not block what answers need: threads, files, children, pipes."""
    source = """
import subprocess, tempfile, threading

def naive_all_reduce_bill(num_ranks, num_bytes):
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("1")
        file.flush()
        assert subprocess.run(["cat", file.name], capture_output=True, check=True).stdout == b"1"
    seen = []
    thread = threading.Thread(target=seen.append, args=(1,))
    thread.start()
    thread.join()
    assert torch.ones(64, 64).matmul(torch.ones(64, 64)).sum() == 64**3 and seen
    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes
"""
    check = weeks.find("week01.naive-bill")
    verdict = judge.judge(check, {"preamble": suite.PREAMBLE, "cells": [[check.exercise, source, True]]}, suite.SEED)
    assert verdict.is_right, verdict.text


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A separate course: the sources of week 1, nbgrader's configuration, no gradebook yet."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    shutil.copytree(ROOT / "autograder" / "templates", root / "autograder" / "templates")
    shutil.copytree(ROOT / "solutions" / suite.WEEK, root / "solutions" / suite.WEEK)
    return root


CLASS = {
    "honest": 1.0,
    "tampering/html_in_errors": 0.0,
    "cheating/displayhook": 0.0,
    "cheating/library_call_by_handle": 0.0,
    "malformed/duplicated_test_cell": 1.0,
    "malformed/schema_version": 1.0,
    "malformed/points_in_metadata": 1.0,
    "malformed/written_answer_with_script": 1.0,
    "malformed/link_to_the_solution": 0.0,
    "malformed/json_bomb": 0.0,
    "malformed/named_pipe": 0.0,
    "crashing/exit_at_import": 0.0,
}


@pytest.mark.slow
def test_a_class_with_attackers_is_graded_and_nobody_is_lost(course: Path):
    submitted = course / "autograder" / "submitted"
    by_name = {case.name: case for case in CASES}
    students = {name.replace("/", "-"): points for name, points in CLASS.items()}
    for name, student in zip(CLASS, students, strict=True):
        _hand_in(by_name.get(name), submitted, student)
    verdicts = {one["student"]: one for one in grade.grade("week01", submitted, root=course, seed=1, workers=2)}
    got = {name: sum(e["points"] for e in verdicts[name]["exercises"].values()) for name in students}
    assert got == students
    published = {one.student: one for one in publishing.publish("week01", list(students), course)}
    assert [name for name in students if published[name].page is None] == []
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        scores = {name: gradebook.find_submission(suite.WEEK, name).score for name in students}
    assert scores == students
    for name in students:
        page = published[name].page.read_text()
        assert "<script>fetch" not in page and "<img src=x" not in page and 'href="javascript:' not in page


def _hand_in(case: suite.Case | None, submitted: Path, student: str) -> None:
    if case is not None and case.is_malformed:
        suite.hand_in(case, submitted, student)
        return
    answers = {"week01-naive-bill": suite.RIGHT_BILL}
    if case is not None:
        answers = {case.exercise.replace(".", "-"): case.code}
    path = submitted / student / suite.WEEK / f"{suite.WEEK}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(suite.notebook_of(answers)))
