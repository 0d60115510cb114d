"""A grading run that is killed is taken up again: nothing is judged twice, nothing is lost, the inputs are the same."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from autograder import demo, grade
from autograder.course import ROOT

WEEK = demo.WEEK


@pytest.fixture
def course(tmp_path):
    """A course root of its own with three submissions."""
    for name in ("nbgrader_config.py", "solutions"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    for student in ("a", "b", "c"):
        demo.write_submission(tmp_path / "submitted", student, {})
    return tmp_path


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_ended(course):
    program = (
        "from pathlib import Path; from autograder import grade;"
        f"grade.grade({WEEK!r}, Path({str(course / 'submitted')!r}), root=Path({str(course)!r}), workers=1)"
    )
    run = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    first = course / "autograder" / "verdicts" / "a" / f"{WEEK}.json"
    deadline = time.monotonic() + 100
    while not first.exists() and time.monotonic() < deadline and run.poll() is None:
        time.sleep(0.02)
    with pytest.raises(ValueError, match="another run writes"):
        grade.grade(WEEK, course / "submitted", root=course)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    before = json.loads(first.read_text())

    judged = []
    results = grade.grade(WEEK, course / "submitted", root=course, done=lambda one: judged.append(one["student"]))
    assert sorted(judged) == ["a", "b", "c"]
    assert results[0] == before  # not judged again: even the time is the same
    assert {one["seed"] for one in results} == {before["seed"]}
    assert all(sum(e["points"] for e in one["exercises"].values()) == demo.POINTS for one in results)
    assert not list(course.glob("autograder/verdicts/.run-*"))


@pytest.mark.slow
def test_a_changed_submission_is_judged_again(course):
    grade.grade(WEEK, course / "submitted", root=course, students=["a"], seed=3)
    (course / "autograder" / "verdicts" / f".run-{WEEK}.json").write_text('{"seed": 3}')
    shutil.rmtree(course / "submitted" / "a")
    demo.write_submission(course / "submitted", "a", {"week01.exchange": "def exchange(tensor, *, group): pass"})
    (result,) = grade.grade(WEEK, course / "submitted", root=course, students=["a"])
    assert result["seed"] == 3 and result["exercises"]["week01.exchange"]["points"] == 0
