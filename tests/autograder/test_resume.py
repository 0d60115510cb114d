"""A killed grading run is resumed: nothing is judged twice, nothing is lost, and the inputs are the same."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from autograder import demo, weeks
from autograder.authoring.course import ROOT
from autograder.grading import desk, grade, publishing
from autograder.judging import submission
from autograder.judging.judge import Verdict

WEEK = demo.WEEK


@pytest.fixture
def course(tmp_path):
    """A separate course root with three submissions."""
    for name in ("nbgrader_config.py", "solutions"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    for student in ("a", "b", "c"):
        demo.write_submission(tmp_path / "submitted", student, {})
    return tmp_path


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_ended(course):
    program = (
        "from pathlib import Path; from autograder.grading import grade;"
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
    assert results[0] == before  # not judged again: even the timestamp is the same
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


def full_points(dossier, judge, seed):
    right = [Verdict(one.exercise, float(one.points), one.points, "Correct.") for one in weeks.of_week(WEEK)]
    return submission.Judged(right, 3, 0.1)


class Killed(BaseException):
    """Simulates kill -9: no exception handler catches it, and no further line runs."""


STAGES = {
    "the first verdict": (grade, "write_verdicts", 1),
    "a verdict": (grade, "write_verdicts", 2),
    "the last verdict": (grade, "write_verdicts", 3),
    "the table": (desk.tables, "write_class", 1),
    "the first page": (publishing, "_publish_one", 1),
    "a page": (publishing, "_publish_one", 2),
    "the last page": (publishing, "_publish_one", 3),
    "what is printed last": (desk.reports, "publish", 1),
}


@pytest.fixture
def quick(course, monkeypatch):
    """The course with a judge that gives full points at once; yields the list of students judged."""
    judged = []

    def counted(rest, seed, **_):
        for one in rest:
            judged.append((one.student, seed))
            yield one, full_points(one, None, seed)

    shutil.copytree(ROOT / "autograder" / "templates", course / "autograder" / "templates")
    for module in (desk.notebooks, publishing.notebooks):
        monkeypatch.setattr(module, "ROOT", course)
    monkeypatch.setattr(desk.publishing, "publish_entered", partial(publishing.publish_entered, course_root=course))
    monkeypatch.setattr(grade, "judge_all", counted)
    monkeypatch.setattr(desk.agreement, "refuse_disagreement", lambda week: None)
    return judged


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_run_killed_at_any_stage_judges_nobody_twice(course, quick, monkeypatch, stage, after):
    module, name, number = STAGES[stage]
    real, calls = getattr(module, name), []

    def killed(*args, **kwargs):
        calls.append(name)
        if len(calls) == number and not after:
            raise Killed
        result = real(*args, **kwargs)
        if len(calls) == number:
            raise Killed
        return result

    wishes = desk.Wishes(course / "submitted")
    with monkeypatch.context() as patched:
        patched.setattr(module, name, killed)
        with pytest.raises(Killed):
            desk.grade_week(WEEK, wishes)
    written = len(list(course.glob(f"autograder/verdicts/*/{WEEK}.json")))
    again = len(quick)
    desk.grade_week(WEEK, wishes)
    assert len(quick) - again == 3 - written and len({seed for _, seed in quick}) == 1
    assert len(list(course.glob(f"autograder/feedback/*/{WEEK}/{WEEK}.html"))) == 3
    assert not list(course.glob("autograder/verdicts/.run-*")) and grade.stale(WEEK, course / "submitted", course) == {}


@pytest.mark.slow
def test_grading_without_a_week_takes_a_killed_run_up_again(course, quick, monkeypatch):
    wishes = desk.Wishes(course / "submitted")
    with monkeypatch.context() as patched:
        patched.setattr(desk.reports, "publish", lambda *_: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            desk.grade_week(WEEK, wishes)
    assert desk.grade_what_changed(wishes) == 3 and len(quick) == 3
    assert desk.grade_what_changed(wishes) == 0
