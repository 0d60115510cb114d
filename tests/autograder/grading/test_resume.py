"""A killed run is resumed, and a verdict belongs to one submission."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell
from nbgrader.api import Gradebook

from autograder import demo, weeks
from autograder.authoring.course import ROOT, load_config
from autograder.grading import desk, grade, publishing, verdict_files
from autograder.judging import submission
from autograder.judging.judge import Verdict
from tests.autograder.tiny_course import TINY_WEEK, hand_in, make_tiny_course, write_verdict

# ---- A killed grading run is resumed: nothing is judged twice, nothing is lost, and the inputs are the same. ---------

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


# ---- A verdict gives points only to the submission that was judged, whichever button or command is used. -------------

RIGHT = {"week01-double": "def double(number):\n    return 2 * number", "week01-interview": "Less than twice."}
FULL = {"week01.double": {"points": 3.0, "max": 3.0, "text": "Correct.", "fault": False, "look": False}}
NONE = {"week01.double": {"points": 0.0, "max": 3.0, "text": "Not yet.", "fault": False, "look": False}}


def again(course: Path, student: str, answers: dict[str, str], change=None) -> None:
    """Replace a student's submission."""
    shutil.rmtree(course / "autograder" / "submitted" / student, ignore_errors=True)
    hand_in(course, student, answers, change)


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> Path:
    """a is right and has full points, c submitted the empty page and has none; both judged and published."""
    course = make_tiny_course(tmp_path_factory.mktemp("course"))
    hand_in(course, "a", RIGHT)
    hand_in(course, "c", {})
    write_verdict(course, "a", FULL)
    write_verdict(course, "c", NONE)
    assert all(one.page for one in publishing.publish("week01", ["a", "c"], course))
    return course


@pytest.fixture
def course_stale_verdicts(graded, tmp_path, monkeypatch) -> Path:
    """A copy of that course."""
    copy = shutil.copytree(graded, tmp_path / "course")
    monkeypatch.setattr("autograder.authoring.notebooks.ROOT", copy)
    return copy


def nbgrader(course: Path, *typed: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "HOME": str(course)}
    command = [sys.executable, "-m", "nbgrader", *typed]
    return subprocess.run(
        command, cwd=course, env=environment, check=False, timeout=120, capture_output=True, text=True
    )


def points(course: Path, student: str) -> float | None:
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        notebook = gradebook.find_submission_notebook(TINY_WEEK, TINY_WEEK, student)
        return next(one.auto_score for one in notebook.grades if one.name == "week01-double-check")


def page(course: Path, student: str) -> str:
    return (course / "autograder" / "feedback" / student / TINY_WEEK / f"{TINY_WEEK}.html").read_text()


@pytest.mark.slow
def test_nbgraders_own_commands_give_a_changed_submission_no_points(course_stale_verdicts):
    assert (points(course_stale_verdicts, "a"), points(course_stale_verdicts, "c")) == (3.0, 0.0)
    again(course_stale_verdicts, "a", {})
    again(course_stale_verdicts, "c", RIGHT)
    refused = nbgrader(course_stale_verdicts, "export", "--to", "before.csv")
    assert (
        refused.returncode != 0
        and "autograder grade" in refused.stderr
        and not (course_stale_verdicts / "before.csv").exists()
    )
    for typed in (["autograde", TINY_WEEK, "--force"], ["generate_feedback", TINY_WEEK, "--force"]):
        done = nbgrader(course_stale_verdicts, *typed)
        assert done.returncode == 0, done.stderr
    for student in ("a", "c"):
        assert points(course_stale_verdicts, student) == 0
        assert f"`autograder grade {TINY_WEEK}`" in page(course_stale_verdicts, student) and "Correct." not in page(
            course_stale_verdicts, student
        )
    write_verdict(course_stale_verdicts, "a", NONE)
    write_verdict(course_stale_verdicts, "c", FULL)
    publishing.publish("week01", ["a", "c"], course_stale_verdicts)
    exported = nbgrader(course_stale_verdicts, "export", "--to", "after.csv")
    assert exported.returncode == 0, exported.stderr
    with (course_stale_verdicts / "after.csv").open(newline="") as file:
        assert {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)} == {"a": 0, "c": 3}


def test_the_formgraders_button_gives_a_changed_submission_no_points(course_stale_verdicts):
    from nbgrader.apps.api import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory

    config = load_config(course_stale_verdicts)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    assert api.autograde(TINY_WEEK, "a")["success"] and points(course_stale_verdicts, "a") == 3
    again(course_stale_verdicts, "a", RIGHT | {"week01-interview": "Another answer."})
    assert api.autograde(TINY_WEEK, "a")["success"] and points(course_stale_verdicts, "a") == 0


def other_verdict(course: Path, student: str, **changes) -> None:
    path = verdict_files.verdict_file(student, TINY_WEEK, course)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


CHANGES = {
    "another answer": lambda course: again(course, "a", RIGHT | {"week01-double": "def double(number): return 0"}),
    "a space": lambda course: again(course, "a", RIGHT | {"week01-double": RIGHT["week01-double"] + " "}),
    "an extra cell": lambda course: again(
        course, "a", RIGHT, lambda notebook: notebook.cells.append(new_code_cell("own = 1"))
    ),
    "another written answer": lambda course: again(course, "a", RIGHT | {"week01-interview": "More than twice."}),
    "another notebook": lambda course: again(course, "a", {}),
    "unreadable": lambda course: hand_over(course).write_text("{"),
    "the verdict of another student": lambda course: shutil.copy(
        verdict_files.verdict_file("c", TINY_WEEK, course), verdict_files.verdict_file("a", TINY_WEEK, course)
    ),
    "a verdict of another week": lambda course: other_verdict(course, "a", assignment="week02_tiny"),
    "a verdict without digest": lambda course: other_verdict(course, "a", digest=""),
    "no isolation": lambda course: other_verdict(course, "a", level=1),
    "a level that is not a number": lambda course: other_verdict(course, "a", level="3"),
    "no exercises": lambda course: other_verdict(course, "a", exercises=3),
    "a broken verdict": lambda course: verdict_files.verdict_file("a", TINY_WEEK, course).write_text("[]"),
    "no verdict": lambda course: verdict_files.verdict_file("a", TINY_WEEK, course).unlink(),
}


def hand_over(course: Path) -> Path:
    return course / "autograder" / "submitted" / "a" / TINY_WEEK / f"{TINY_WEEK}.ipynb"


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_no_longer_what_was_judged_gets_no_points(course_stale_verdicts, change):
    submitted = course_stale_verdicts / "autograder" / "submitted"
    assert grade.stale(TINY_WEEK, submitted, course_stale_verdicts) == {}
    CHANGES[change](course_stale_verdicts)
    assert list(grade.stale(TINY_WEEK, submitted, course_stale_verdicts)) == ["a"]
    publishing.publish("week01", ["a"], course_stale_verdicts)
    assert points(course_stale_verdicts, "a") == 0 and "`autograder grade" in page(course_stale_verdicts, "a")


def test_grading_without_a_week_judges_what_has_changed_and_nothing_else(course_stale_verdicts, monkeypatch):
    submitted, judged = course_stale_verdicts / "autograder" / "submitted", []
    monkeypatch.setattr(desk.notebooks, "weeks", lambda *root: [TINY_WEEK])
    monkeypatch.setattr(desk.agreement, "refuse_disagreement", lambda week: None)

    def nothing(week, wishes, students=None):
        judged.append(students)
        return []

    assert desk.grade_what_changed(desk.Wishes(submitted)) == 0
    again(course_stale_verdicts, "c", RIGHT)
    hand_in(course_stale_verdicts, "new", RIGHT)
    monkeypatch.setattr(desk, "grade_week", nothing)
    assert desk.grade_what_changed(desk.Wishes(submitted)) == 2 and judged == [["c", "new"]]
