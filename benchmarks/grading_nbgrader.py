"""One exercise with three checks on four ranks, graded by us and by plain nbgrader with torchrun in its cells."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median

import nbformat
from nbformat import v4
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder import weeks
from autograder.authoring.course import ROOT, nbgrader_programs
from autograder.demo import WEEK, write_submission
from autograder.grading.publishing import enter, publish_entered
from autograder.judging.judge import Judge
from autograder.reading import dossier
from benchmarks.row import Row, at_least_times

EXERCISE = "week01.exchange"
CASES = [{"ranks": 4, "numbers": numbers} for numbers in (5, 1000, 4097)]
ROUNDS = 3
PLAIN_CHECK = """\
def case(numbers):
    mine = torch.arange(float(numbers)) + dist.get_rank()
    theirs = exchange(mine.clone(), group=dist.group.WORLD)
    return torch.equal(theirs, mine - dist.get_rank() + (dist.get_rank() ^ 1))

assert all(shardlab.run(case, {numbers}, ranks=4, timeout=60, launcher="torchrun"))
"""


def measure() -> list[Row]:
    """Alternate; each side grades a submission into a gradebook that has the week, and writes its feedback page."""
    ours, peer = [], []
    with tempfile.TemporaryDirectory() as folder, Judge() as judge:
        course, plain = _our_course(Path(folder, "ours")), Path(folder, "plain")
        config = _plain_course(plain)
        enter(WEEK, course)
        _grade_ours(course, judge)  # warm up sandboxes and gradebooks before timing
        for _ in range(ROUNDS):
            ours.append(_seconds(lambda: _grade_ours(course, judge)))
            peer.append(_seconds(lambda: _grade_plainly(config)))
    return [at_least_times("3 checks on 4 ranks, vs. nbgrader with torchrun, s", median(ours), median(peer), 20)]


def _seconds(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _our_course(folder: Path) -> Path:
    shutil.copytree(ROOT / "solutions", folder / "solutions")
    shutil.copytree(ROOT / "autograder" / "templates", folder / "autograder" / "templates")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    write_submission(folder / "autograder" / "submitted", "student", {})
    return folder


def _grade_ours(course: Path, judge: Judge) -> None:
    check = weeks.find(EXERCISE)
    one = dossier.open_dossier("student", WEEK, course / "autograder" / "submitted", course)
    verdict = judge.judge(check, one.answers[EXERCISE] or {}, 1, CASES)
    if not verdict.is_right:
        raise RuntimeError(f"a correct answer did not get its points: {verdict.text}")
    publish_entered(WEEK, ["student"], course)


def _plain_course(folder: Path) -> Config:
    """Make a course as in nbgrader's documentation, with the reference answer submitted."""
    source = folder / "source" / "week" / "week.ipynb"
    source.parent.mkdir(parents=True)
    marks = {"schema_version": 3, "task": False}
    answer = dossier.open_dossier("student", WEEK, _handed_in(folder / "ours"), ROOT).answers[EXERCISE] or {}
    text = next(cell[1] for cell in answer["cells"] if cell[2])
    cells = [v4.new_code_cell("import torch\nimport torch.distributed as dist\nimport shardlab")]
    given = {"grade": False, "solution": True, "locked": False, "grade_id": "exchange", **marks}
    cells.append(v4.new_code_cell(text, metadata={"nbgrader": given}))
    for number, case in enumerate(CASES):
        test = {"grade": True, "solution": False, "locked": True, "grade_id": f"check{number}", "points": 1, **marks}
        code = PLAIN_CHECK.replace("{numbers}", str(case["numbers"]))
        cells.append(v4.new_code_cell(code, metadata={"nbgrader": test}))
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(v4.new_notebook(cells=cells, metadata=kernel), source)
    config = Config()
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.assignment_id = "week"
    config.CourseDirectory.student_id = "student"
    config.Execute.timeout = 300
    _quietly(GenerateAssignment(coursedir=CourseDirectory(config=config), config=config))
    shutil.copytree(source.parent, folder / "submitted" / "student" / "week")
    return config


def _handed_in(folder: Path) -> Path:
    write_submission(folder, "student", {})
    return folder


def _grade_plainly(config: Config) -> None:
    for step in (Autograde, GenerateFeedback):
        _quietly(step(coursedir=CourseDirectory(config=config), config=config, force=True))


def _quietly(step) -> None:
    step.log.setLevel("ERROR")
    before = os.getcwd()
    try:
        with nbgrader_programs(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # raised by nbgrader's own queries
            step.start()
    finally:
        os.chdir(before)
