"""A verdict gives points only to the submission that was judged, whichever button or command is used."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell
from nbgrader.api import Gradebook
from tiny_course import TINY_WEEK, hand_in, make_tiny_course, write_verdict

from autograder.authoring.course import load_config
from autograder.grading import desk, grade, publishing, verdict_files

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
def course(graded, tmp_path, monkeypatch) -> Path:
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
def test_nbgraders_own_commands_give_a_changed_submission_no_points(course):
    assert (points(course, "a"), points(course, "c")) == (3.0, 0.0)
    again(course, "a", {})
    again(course, "c", RIGHT)
    refused = nbgrader(course, "export", "--to", "before.csv")
    assert refused.returncode != 0 and "autograder grade" in refused.stderr and not (course / "before.csv").exists()
    for typed in (["autograde", TINY_WEEK, "--force"], ["generate_feedback", TINY_WEEK, "--force"]):
        done = nbgrader(course, *typed)
        assert done.returncode == 0, done.stderr
    for student in ("a", "c"):
        assert points(course, student) == 0
        assert f"`autograder grade {TINY_WEEK}`" in page(course, student) and "Correct." not in page(course, student)
    write_verdict(course, "a", NONE)
    write_verdict(course, "c", FULL)
    publishing.publish("week01", ["a", "c"], course)
    exported = nbgrader(course, "export", "--to", "after.csv")
    assert exported.returncode == 0, exported.stderr
    with (course / "after.csv").open(newline="") as file:
        assert {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)} == {"a": 0, "c": 3}


def test_the_formgraders_button_gives_a_changed_submission_no_points(course):
    from nbgrader.apps.api import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory

    config = load_config(course)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    assert api.autograde(TINY_WEEK, "a")["success"] and points(course, "a") == 3
    again(course, "a", RIGHT | {"week01-interview": "Another answer."})
    assert api.autograde(TINY_WEEK, "a")["success"] and points(course, "a") == 0


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
def test_what_is_no_longer_what_was_judged_gets_no_points(course, change):
    submitted = course / "autograder" / "submitted"
    assert grade.stale(TINY_WEEK, submitted, course) == {}
    CHANGES[change](course)
    assert list(grade.stale(TINY_WEEK, submitted, course)) == ["a"]
    publishing.publish("week01", ["a"], course)
    assert points(course, "a") == 0 and "`autograder grade" in page(course, "a")


def test_grading_without_a_week_judges_what_has_changed_and_nothing_else(course, monkeypatch):
    submitted, judged = course / "autograder" / "submitted", []
    monkeypatch.setattr(desk.notebooks, "weeks", lambda *root: [TINY_WEEK])
    monkeypatch.setattr(desk.agreement, "refuse_disagreement", lambda week: None)

    def nothing(week, wishes, students=None):
        judged.append(students)
        return []

    assert desk.grade_what_changed(desk.Wishes(submitted)) == 0
    again(course, "c", RIGHT)
    hand_in(course, "new", RIGHT)
    monkeypatch.setattr(desk, "grade_week", nothing)
    assert desk.grade_what_changed(desk.Wishes(submitted)) == 2 and judged == [["c", "new"]]
