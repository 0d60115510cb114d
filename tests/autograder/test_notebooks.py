"""Building notebooks, and the bundle of a release."""

import os
import subprocess
import sys

import nbformat
import pytest
from tiny_course import TINY_SOURCE, TINY_WEEK, make_tiny_course

from autograder import demo
from autograder.authoring import notebooks
from autograder.authoring.course import ROOT, copy_course

# ---- From the percent source to the students' notebook ---------------------------------------------------------------


@pytest.fixture
def course(tmp_path):
    return make_tiny_course(tmp_path)


def rewrite_source(course, source):
    notebooks.source_path(TINY_WEEK, course).write_text(source)


def test_two_builds_are_byte_identical(course):
    first = notebooks.build("week01", course).read_bytes()
    notebooks._released_text.cache_clear()
    assert notebooks.build("week01", course, force=True).read_bytes() == first
    notebooks.release_path("week01", course).unlink()
    assert notebooks.build("week01", course).read_bytes() == first


def test_the_students_notebook_holds_stubs_and_no_solution(course):
    text = notebooks.build("week01", course).read_text()
    assert "secret way" not in text and "SOLUTION" not in text
    double = next(cell for cell in notebooks.release("week01", course).cells if cell.id == "week01-double")
    assert '"""Return twice the number."""' in double.source and "NotImplementedError" in double.source


def test_outside_a_function_the_stub_does_not_raise(course):
    answer = "answers = {}\n### BEGIN SOLUTION\nanswers = {1: 2}\n### END SOLUTION\n"
    rewrite_source(course, TINY_SOURCE.replace("def triple", answer + "def triple"))
    triple = next(cell for cell in notebooks.release("week01", course).cells if cell.id == "week01-triple")
    assert triple.source.startswith("answers = {}\n# Your code here.\ndef triple")
    assert triple.source.count("raise NotImplementedError") == 1


def test_cells_carry_what_nbgrader_needs(course):
    released = notebooks.release("week01", course)
    cells = {cell.metadata.nbgrader.grade_id: cell for cell in released.cells if "nbgrader" in cell.metadata}
    kinds = {name: (m.grade, m.solution, m.locked, m.get("points")) for name, m in marks_of(cells)}
    assert kinds == {
        "week01-double": (False, True, False, None),
        "week01-double-check": (True, False, True, 3),
        "week01-triple": (False, True, False, None),
        "week01-triple-check": (True, False, True, 2),
        "week01-interview": (True, True, False, 2),
    }
    assert cells["week01-interview"].cell_type == "markdown"
    assert [cell.source for cell in released.cells if "interactive" in cell.metadata.get("tags", [])] == [
        'print("a slider")'
    ]
    assert released.metadata.kernelspec.name == "python3"
    nbformat.validate(released)


def marks_of(cells):
    return ((name, cell.metadata.nbgrader) for name, cell in cells.items())


def test_an_inserted_cell_renames_no_other(course):
    before = [cell.id for cell in notebooks.release("week01", course).cells]
    rewrite_source(course, TINY_SOURCE.replace("# %%\nimport", "# %%\nprint('new')\n\n# %%\nimport"))
    after = [cell.id for cell in notebooks.release("week01", course).cells]
    assert len(after) == len(before) + 1 and set(before) < set(after)


def test_an_edited_source_makes_the_notebook_stale(course):
    assert notebooks.is_stale("week01", course)
    notebooks.build("week01", course)
    assert not notebooks.is_stale("week01", course)
    rewrite_source(course, TINY_SOURCE.replace("# Week 1", "# Week one"))
    assert notebooks.is_stale("week01", course)


def test_someones_answers_are_overwritten_only_by_force(course):
    path = notebooks.build("week01", course)
    path.write_text(path.read_text().replace("# Your code here.", "return number * 2"))
    with pytest.raises(ValueError, match="contains answers in week01-double, week01-triple"):
        notebooks.build("week01", course)
    notebooks.build("week01", course, force=True)
    assert not notebooks.is_stale("week01", course)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('exercise="week01.triple"', 'exercise="week01.double"', "used for more than one cell"),
        ('check="week01.triple"', 'check="week01.other"', "has no exercise cell"),
        ("points=3", "points=0", "write a positive number"),
        ('# %% exercise="week01.triple"', "# %%", "has no exercise cell"),
        ("import math", "### BEGIN SOLUTION", "no end solution"),
        (
            "# %% [markdown]\n# # Week 1",
            "# %% [markdown] A first sentence\n# # Week 1",
            "no reader sees 'A first sent",
        ),
    ],
)
def test_a_broken_source_is_refused_with_a_sentence(course, old, new, sentence):
    rewrite_source(course, TINY_SOURCE.replace(old, new))
    with pytest.raises(ValueError, match=sentence):
        notebooks.build("week01", course)


def test_an_unknown_week_lists_the_weeks_there_are(course):
    assert notebooks.weeks(course) == [TINY_WEEK]
    with pytest.raises(ValueError, match="use one of week01_tiny"):
        notebooks.build("week09", course)


def test_ids_translate_both_ways():
    assert notebooks.grade_id("week01.ring-all-reduce") == "week01-ring-all-reduce"
    assert notebooks.exercise_id("week01-ring-all-reduce-check") == "week01.ring-all-reduce"


@pytest.mark.parametrize("week", notebooks.weeks())
def test_course_holds_what_the_sources_build_and_no_solution(week):
    assert not notebooks.is_stale(week), f"run `make notebooks`: course/{week} is older than its source"
    released = notebooks.release_path(week).read_text()
    answers = notebooks.read_source(week).cells
    solutions = [line for cell in answers for line in solution_lines(cell.source)]
    given = "\n".join(cell.source for cell in notebooks.release(week).cells)
    leaked = [line for line in solutions if line in released and line not in given]
    assert not leaked and "END SOLUTION" not in released


def solution_lines(source):
    inside = source.partition("BEGIN SOLUTION")[2].partition("END SOLUTION")[0]
    return [line.strip() for line in inside.splitlines()[1:-1] if line.strip()]


# ---- The students' copy, without solutions/: its checks work, and it grades a notebook built from it -----------------


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
    """The course as students get it."""
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
