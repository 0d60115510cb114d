"""A class that shares one gradebook and one template gets what each student alone would get."""

from itertools import permutations
from pathlib import Path

import pytest
from nbgrader.api import Gradebook, MissingEntry
from tiny_course import TINY_WEEK, hand_in, make_tiny_course, write_verdict

from autograder.authoring.course import copy_course, load_config
from autograder.grading import nbgrader_bridge, people, publishing
from autograder.grading.roster import Student

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


def points(course: Path) -> dict[str, float | None]:
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
    assert points(course) == POINTS
    for students in permutations(ANSWERS):
        assert pages(course, students) == alone
    assert points(course) == POINTS
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
    assert points(course) == POINTS | {"bob": None}
    assert nbgrader_bridge.Gradebook is people.Gradebook is Gradebook
    monkeypatch.undo()
    assert pages(course, ["bob"]) and points(course) == POINTS


def test_a_copy_of_the_course_has_the_template_of_its_pages(tmp_path):
    copied = copy_course(tmp_path / "course", ("autograder", "nbgrader_config.py"))
    assert (copied / "autograder" / "templates" / "feedback" / "index.html.j2").is_file()
    assert not (copied / "autograder" / "verdicts").exists()
