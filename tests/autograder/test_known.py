"""Known answers are found by listing folders, and a change that does not fit its answer is refused."""

import pytest

from autograder.matrices import known
from autograder.weeks import FOLDERS, WEEKS

CHECKS = [check for checks in WEEKS.values() for check in checks]
RIGHT = '"""Different: adds."""\n\n\ndef total(a, b):\n    return a + b\n'


@pytest.fixture
def course(tmp_path):
    """A course with one exercise, week01.total, of which one right answer is known."""
    folder = tmp_path / "solutions" / "week01_sums" / "known" / "total"
    folder.mkdir(parents=True)
    (folder / "right_sum.py").write_text(RIGHT)
    return tmp_path


def changed(course, table: str) -> list[known.Known]:
    (course / "solutions" / "week01_sums" / "known" / "total.toml").write_text(table)
    return known.answers_of("week01.total", course)


def test_a_change_makes_another_answer(course):
    table = '[minus]\nstory = "subtracts."\nof = "right_sum"\nold = "a + b"\nnew = "a - b"\nnot_in_sight = "b is 0."'
    minus, right = changed(course, table)
    assert (minus.name, minus.is_right, minus.reason) == ("minus", False, "b is 0.")
    assert minus.source == '"""Wrong: subtracts."""\n\ndef total(a, b):\n    return a - b\n'
    assert right.is_right and right.source == RIGHT and right.story == "Different: adds."


def test_a_change_may_have_several_places(course):
    table = '[c]\nstory = "other names."\nof = "right_sum"\nold = ["(a, b)", "a + b"]\nnew = ["(c, d)", "c * d"]'
    assert "def total(c, d):\n    return c * d\n" in changed(course, table)[0].source


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('story = "s"\nof = "right_sum"\nold = "a * b"\nnew = "a"', "occurs 0 times in right_sum"),
        ('story = "s"\nof = "right_sum"\nold = "a"\nnew = "c"', "occurs 3 times in right_sum"),
        ('story = "s"\nof = "gone"\nold = "a + b"\nnew = "a"', "changes 'gone', and there is no such file"),
        ('story = "s"\nof = "right_sum"\nold = "a + b"', "lacks new"),
        ('story = "s"\nof = "right_sum"\nold = "a + b"\nnew = "a"\nwhy = "so"', "has why"),
        ('story = "s"\nof = "right_sum"\nold = ["a + b", "def"]\nnew = ["a"]', "changes 2 places, and 1 texts"),
    ],
)
def test_a_change_that_does_not_fit_is_refused(course, table, words):
    with pytest.raises(ValueError, match=r"total\.toml: \[wrong\]") as refused:
        changed(course, f"[wrong]\n{table}")
    assert words in str(refused.value)


def test_a_broken_file_is_named(course):
    with pytest.raises(ValueError, match=r"total\.toml: Expected"):
        changed(course, "[wrong")


def test_a_name_is_taken_once(course):
    with pytest.raises(ValueError, match="is also a file"):
        changed(course, '[right_sum]\nstory = "s"\nof = "right_sum"\nold = "a + b"\nnew = "a"')


def test_a_file_is_named_after_its_exercise():
    files = {f"{week}.{path.stem}" for week, folder in FOLDERS.items() for path in folder.glob("[!_]*.py")}
    assert files == {check.exercise.replace("-", "_") for check in CHECKS}


def test_every_known_answer_belongs_to_an_exercise():
    folders = (known.ROOT / "solutions").glob("week*/known/*")
    kept = {f"{path.parts[-3].split('_')[0]}.{path.stem}" for path in folders}
    assert kept == {check.exercise.replace("-", "_") for check in CHECKS}
