"""Any problem with the gradebook is reported in one sentence, before anyone is judged."""

import os
import sqlite3
from pathlib import Path

import pytest
from tiny_course import TINY_SOURCE, TINY_WEEK, hand_in, make_tiny_course, write_verdict

from autograder.authoring.course import load_config
from autograder.grading import desk, gradebook, publishing
from autograder.lms import points

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
def course(tmp_path, monkeypatch) -> Path:
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


def test_a_locked_gradebook(course):
    with sqlite3.connect(file_of(course)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert "database is locked" in grade_again(course)
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
def test_a_gradebook_that_cannot_be_read(course, how):
    BROKEN[how](file_of(course))
    said = grade_again(course)
    assert "cannot be used" in said and "gradebook.db" in said
    with pytest.raises(ValueError, match="cannot be used"):
        points.scores(TINY_WEEK, "canvas", course / "autograder" / "submitted", course)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_gradebook_that_may_not_be_written(course):
    file_of(course).chmod(0o444)
    file_of(course).parent.chmod(0o555)
    assert "cannot be used" in grade_again(course)


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
def test_cells_that_changed_after_grading(course, how):
    source, words = CHANGED[how]
    (course / "solutions" / TINY_WEEK / f"{TINY_WEEK}.py").write_text(source)
    said = grade_again(course)
    assert "have changed since 1 submissions" in said and words in said and "nbgrader db assignment remove" in said


def test_a_lock_that_comes_while_publishing_ends_the_batch_with_a_sentence(course):
    write_verdict(course, "ada", {"week01.double": {"points": 1.0, "max": 3.0, "text": "Half.", "fault": False}})
    with sqlite3.connect(file_of(course)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ValueError, match=r"only partly published: .* locked"):
            publishing.publish_entered(TINY_WEEK, ["ada"], course)
        other.rollback()
    (one,) = publishing.publish_entered(TINY_WEEK, ["ada"], course)
    assert one.page is not None and load_config(course)
