"""What students get, the course without solutions/: its checks work, and it grades a notebook of its own."""

import os
import subprocess
import sys

import pytest

from autograder import demo
from autograder.authoring.course import ROOT, copy_course

CHECKED = """
from pathlib import Path
from autograder.matrices import known
from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.judging.self_check import check
assert not (ROOT / "solutions").exists() and "week01_collectives" in notebooks.weeks()
assert check("week01.naive-bill", lambda num_ranks, num_bytes: (num_ranks, num_bytes)) == 0
assert known.answers_of("week01.naive-bill") == []
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """The course as a student has it."""
    return copy_course(tmp_path_factory.mktemp("bundle"), ("autograder", "course", "nbgrader_config.py"))


def run_in(bundle, *arguments):
    paths = os.pathsep.join([str(bundle), str(ROOT / "labs")])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=bundle,
        env=os.environ | {"PYTHONPATH": paths, "AUTOGRADER_LEVEL": "1"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@pytest.mark.slow
def test_a_check_works_without_solutions(bundle):
    checked = run_in(bundle, "-c", CHECKED)
    assert checked.returncode == 0, checked.stderr
    assert "week01.naive-bill: 0 of 1 points" in checked.stdout


@pytest.mark.slow
def test_a_student_grades_a_notebook_without_solutions(bundle, tmp_path):
    demo.write_submission(tmp_path, "me", {})
    command = ("grade", demo.WEEK, "--submitted", str(tmp_path), "--self-check", "--no-publish")
    graded = run_in(bundle, "-m", "autograder.cli", *command)
    assert graded.returncode == 0 and f"{demo.POINTS:g}" in graded.stdout, graded.stderr
