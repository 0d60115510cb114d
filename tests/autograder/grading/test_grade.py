"""The grade command and the gradebook."""

import csv
import json
import os
import sqlite3
from itertools import permutations
from pathlib import Path

import pytest
from nbgrader.api import Gradebook, MissingEntry
from typer.testing import CliRunner

from autograder import demo, weeks
from autograder.authoring import notebooks
from autograder.authoring.course import copy_course, load_config
from autograder.cli import app
from autograder.grading import desk, grade, gradebook, nbgrader_bridge, people, publishing, tables
from autograder.grading.roster import Student
from autograder.lms import points
from autograder.sandboxes import zygote
from tests.autograder.tiny_course import TINY_SOURCE, TINY_WEEK, hand_in, make_tiny_course, write_verdict

# ---- The grade command, and several processes that publish at the same time. -----------------------------------------

# ---- A class is graded: right points for all, one file per student, the same points in a regrade, nobody lost --------


WEEK = demo.WEEK
NO_BILL = {"week01.naive-bill": "def naive_all_reduce_bill(num_ranks, num_bytes):\n    return 14, 14 * num_bytes\n"}


@pytest.fixture(scope="module")
def submitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("submitted")
    demo.write_submission(folder, "right", {})
    demo.write_submission(folder, "bill", NO_BILL)
    (folder / "broken" / WEEK).mkdir(parents=True)
    (folder / "broken" / WEEK / f"{WEEK}.ipynb").write_text("{not json")
    (folder / "empty" / WEEK).mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def verdicts(submitted, tmp_path_factory, judge):
    root = tmp_path_factory.mktemp("target")
    results = {}
    for student in grade.students_in(submitted, WEEK):
        results[student] = grade.grade_one(student, WEEK, submitted, judge, seed=7)
        grade.write_verdicts(results[student], root)
    return root, results


def points_grade(one):
    return sum(exercise["points"] for exercise in one["exercises"].values())


def test_everybody_gets_what_they_earned(verdicts):
    _, results = verdicts
    assert {name: points_grade(one) for name, one in results.items()} == {
        "right": demo.POINTS,
        "bill": demo.POINTS - 1,
        "broken": 0,
        "empty": 0,
    }
    assert "num_ranks=3" in results["bill"]["exercises"]["week01.naive-bill"]["text"]
    assert "could not be read" in results["broken"]["exercises"]["week01.exchange"]["text"]
    assert "Not submitted" in results["empty"]["exercises"]["week01.exchange"]["text"]


def test_the_verdict_file_says_what_the_grade_rests_on(verdicts):
    root, results = verdicts
    kept = json.loads((root / "autograder" / "verdicts" / "right" / f"{WEEK}.json").read_text())
    assert kept == results["right"]
    assert kept["seed"] == 7 and kept["level"] == zygote.level() and set(kept["versions"]) >= {"torch", "nbgrader"}


def test_summary_and_csv(verdicts, tmp_path):
    _, results = verdicts
    rows = tables.summary(list(results.values()))
    optional = sum(check.points for check in weeks.of_week(WEEK) if check.optional)
    assert rows[-1]["student"] == "right" and rows[-1]["points"] == rows[-1]["max"] + optional == demo.POINTS
    tables.write_csv(list(results.values()), tmp_path / "grades.csv")
    with (tmp_path / "grades.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["points"] for line in lines] == [str(demo.POINTS - 1), "0.0", "0.0", str(demo.POINTS)]


def test_week_and_folder_that_do_not_exist(tmp_path):
    with pytest.raises(ValueError, match="week01_collectives"):
        grade.grade("week99", tmp_path)
    with pytest.raises(ValueError, match="is not a folder"):
        grade.grade(WEEK, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["grade", "week99"], "week01_collectives"),
        (["grade", "week01", "--submitted", "/nonexistent"], "not a folder"),
        (["build", "week77"], "week01_collectives"),
        (["kill-matrix", "week77"], "week01"),
    ],
)
def test_the_command_answers_bad_input_with_a_sentence(arguments, words, monkeypatch):
    monkeypatch.setattr(zygote, "level", lambda: 3)  # or it would report that this machine cannot grade
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 2
    assert words in answer.output and "Traceback" not in answer.output


def test_a_verdict_from_a_machine_without_isolation_is_not_published(verdicts, submitted, monkeypatch, tmp_path):
    _, results = verdicts
    monkeypatch.setattr(zygote, "level", lambda: 3)  # here; the submission was judged at a lower level
    monkeypatch.setattr(grade, "grade", lambda *_, then, **__: then([results["right"] | {"level": 1}]))
    monkeypatch.setattr("autograder.grading.publishing.enter", lambda *_: None)
    monkeypatch.setattr(tables, "write_class", lambda *_: None)
    monkeypatch.setattr("autograder.grading.reports.publish", lambda *_: pytest.fail("it was published"))
    answer = CliRunner().invoke(app, ["grade", "week01", "--submitted", str(submitted), "--student", "right"])
    assert answer.exit_code == 2 and "nothing is published: right" in answer.output


def test_course_is_what_the_sources_build():
    assert [week for week in notebooks.weeks() if notebooks.is_stale(week)] == []


# ---- A class that shares one gradebook and one template gets the same results as single students ---------------------


ANSWERS = {
    "ada": {"week01-double": "def double(number):\n    return 2 * number", "week01-interview": "Less than twice."},
    "bob": {"week01-double": "import torch\n\n# an image: ![x](https://evil.example/1.png)"},
    "c[y]": {"week01-interview": r"Half of $\frac{2(n-1)}{n} S$ bytes."},
}
POINTS = {"ada": 3.0, "bob": 0.5, "c[y]": 0.0}


@pytest.fixture
def course(tmp_path):
    """A course with the verdicts of three students."""
    made = make_tiny_course(tmp_path)
    for student, answers in ANSWERS.items():
        hand_in(made, student, answers)
        verdict = {"points": POINTS[student], "max": 3.0, "text": f"Seen in the answer of {student}."}
        write_verdict(made, student, {"week01.double": verdict})
    return made


def published_points(course: Path) -> dict[str, float | None]:
    """Points by student; None for a student who is not in the gradebook."""
    found: dict[str, float | None] = {}
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        for student in ANSWERS:
            try:
                found[student] = gradebook.find_submission(TINY_WEEK, student).score
            except MissingEntry:
                found[student] = None
    return found


def pages(course: Path, students) -> dict[str, bytes]:
    published = publishing.publish("week01", list(students), course)
    assert [one.student for one in published] == list(students) and all(one.page for one in published), published
    return {one.student: one.page.read_bytes() for one in published if one.page}


def test_a_page_is_the_same_in_whatever_company(course):
    alone = {student: pages(course, [student])[student] for student in ANSWERS}
    assert published_points(course) == POINTS
    for students in permutations(ANSWERS):
        assert pages(course, students) == alone
    assert published_points(course) == POINTS
    for student, page in alone.items():
        assert f"answer of {student}." in page.decode()
        assert not any(f"answer of {other}." in page.decode() for other in set(ANSWERS) - {student})


def test_a_student_gets_all_grades_or_none_and_others_get_theirs(course, monkeypatch):
    def fails_for_bob(db_url: str, student: Student, folder: Path) -> None:
        if student.student == "bob":
            raise OSError("no space left")

    monkeypatch.setattr(people, "enter_name", fails_for_bob)
    published = {one.student: one for one in publishing.publish("week01", list(ANSWERS), course)}
    assert published["bob"].page is None and "no space left" in published["bob"].problem
    assert published_points(course) == POINTS | {"bob": None}
    assert nbgrader_bridge.Gradebook is people.Gradebook is Gradebook
    monkeypatch.undo()
    assert pages(course, ["bob"]) and published_points(course) == POINTS


def test_a_copy_of_the_course_has_the_template_of_its_pages(tmp_path):
    copied = copy_course(tmp_path / "course", ("autograder", "nbgrader_config.py"))
    assert (copied / "autograder" / "templates" / "feedback" / "index.html.j2").is_file()
    assert not (copied / "autograder" / "verdicts").exists()


# ---- Any problem with the gradebook is reported in one sentence, before anyone is judged. ----------------------------

ADDED = """
# %% exercise="week01.more"
def more(number):
    ### BEGIN SOLUTION
    return number + 1
    ### END SOLUTION

# %% check="week01.more" points=1
assert more(1) == 2
"""


@pytest.fixture
def course_gradebook(tmp_path, monkeypatch) -> Path:
    """A published course of one student, in which judging raises an error."""
    root = make_tiny_course(tmp_path)
    hand_in(root, "ada", {"week01-double": "return 2"})
    write_verdict(root, "ada", {"week01.double": {"points": 3.0, "max": 3.0, "text": "Correct.", "fault": False}})
    (one,) = publishing.publish("week01", ["ada"], root)
    assert one.page is not None
    monkeypatch.setattr(desk.notebooks, "ROOT", root)
    monkeypatch.setattr(desk.agreement, "refuse_disagreement", lambda week: None)
    monkeypatch.setattr(desk.grade, "grade", lambda *args, **kwargs: pytest.fail("the class was judged"))
    return root


def file_of(course: Path) -> Path:
    return course / "autograder" / "gradebook.db"


def grade_again(course: Path) -> str:
    """Return the sentence with which grading is refused."""
    with pytest.raises(ValueError) as refused:
        desk.grade_week(TINY_WEEK, desk.Wishes(course / "autograder" / "submitted"))
    said = str(refused.value)
    assert "\n" not in said and "Traceback" not in said
    return said


def test_a_locked_gradebook(course_gradebook):
    with sqlite3.connect(file_of(course_gradebook)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert "database is locked" in grade_again(course_gradebook)
        other.rollback()


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BROKEN = {
    "text": lambda path: path.write_text("no database at all, but a long enough text" * 100),
    "cut off": truncated,
    "a folder": a_folder,
    "another database": lambda path: (path.unlink(), sqlite3.connect(path).execute("CREATE TABLE course (x)")),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_gradebook_that_cannot_be_read(course_gradebook, how):
    BROKEN[how](file_of(course_gradebook))
    said = grade_again(course_gradebook)
    assert "cannot be used" in said and "gradebook.db" in said
    with pytest.raises(ValueError, match="cannot be used"):
        points.scores(TINY_WEEK, "canvas", course_gradebook / "autograder" / "submitted", course_gradebook)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_gradebook_that_may_not_be_written(course_gradebook):
    file_of(course_gradebook).chmod(0o444)
    file_of(course_gradebook).parent.chmod(0o555)
    assert "cannot be used" in grade_again(course_gradebook)


def test_a_password_is_not_shown():
    with pytest.raises(ValueError) as refused, gradebook.opened("postgresql://ada:secret@127.0.0.1:9/gradebook"):
        pass
    assert "secret" not in str(refused.value) and "cannot be used" in str(refused.value)


CHANGED = {
    "added": (TINY_SOURCE + ADDED, "2 added (week01-more, week01-more-check)"),
    "removed": (TINY_SOURCE[: TINY_SOURCE.index("# %% [markdown] manual")], "1 removed (week01-interview)"),
    "renamed": (TINY_SOURCE.replace("week01.triple", "week01.thrice"), "added (week01-thrice, week01-thrice-check)"),
}


@pytest.mark.parametrize("how", CHANGED)
def test_cells_that_changed_after_grading(course_gradebook, how):
    source, words = CHANGED[how]
    (course_gradebook / "solutions" / TINY_WEEK / f"{TINY_WEEK}.py").write_text(source)
    said = grade_again(course_gradebook)
    assert "have changed since 1 submissions" in said and words in said and "nbgrader db assignment remove" in said


def test_a_lock_that_comes_while_publishing_ends_the_batch_with_a_sentence(course_gradebook):
    write_verdict(
        course_gradebook, "ada", {"week01.double": {"points": 1.0, "max": 3.0, "text": "Half.", "fault": False}}
    )
    with sqlite3.connect(file_of(course_gradebook)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ValueError, match=r"only partly published: .* locked"):
            publishing.publish_entered(TINY_WEEK, ["ada"], course_gradebook)
        other.rollback()
    (one,) = publishing.publish_entered(TINY_WEEK, ["ada"], course_gradebook)
    assert one.page is not None and load_config(course_gradebook)
