"""Notebooks are built from percent source, and weeks can be hidden."""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from shardlab.study import page
from shardlab.study.folder import begin
from typer.testing import CliRunner

from autograder import demo
from autograder.authoring import course, hiding, notebooks
from autograder.authoring.course import ROOT, copy_course
from autograder.cli import app
from tests.autograder.tiny_course import TINY_SOURCE, TINY_WEEK, make_tiny_course

# ---- Building notebooks, and the bundle of a release. ----------------------------------------------------------------

# ---- From the percent source to the students' notebook ---------------------------------------------------------------


@pytest.fixture
def course_notebooks(tmp_path):
    return make_tiny_course(tmp_path)


def rewrite_source(course, source):
    notebooks.source_path(TINY_WEEK, course).write_text(source)


def test_two_builds_are_byte_identical(course_notebooks):
    first = notebooks.build("week01", course_notebooks).read_bytes()
    notebooks._released_text.cache_clear()
    assert notebooks.build("week01", course_notebooks, force=True).read_bytes() == first
    notebooks.release_path("week01", course_notebooks).unlink()
    assert notebooks.build("week01", course_notebooks).read_bytes() == first


def test_the_students_notebook_holds_stubs_and_no_solution(course_notebooks):
    text = notebooks.build("week01", course_notebooks).read_text()
    assert "secret way" not in text and "SOLUTION" not in text
    double = next(cell for cell in notebooks.release("week01", course_notebooks).cells if cell.id == "week01-double")
    assert '"""Return twice the number."""' in double.source and "NotImplementedError" in double.source


def test_outside_a_function_the_stub_does_not_raise(course_notebooks):
    answer = "answers = {}\n### BEGIN SOLUTION\nanswers = {1: 2}\n### END SOLUTION\n"
    rewrite_source(course_notebooks, TINY_SOURCE.replace("def triple", answer + "def triple"))
    triple = next(cell for cell in notebooks.release("week01", course_notebooks).cells if cell.id == "week01-triple")
    assert triple.source.startswith("answers = {}\n# Your code here.\ndef triple")
    assert triple.source.count("raise NotImplementedError") == 1


def test_cells_carry_what_nbgrader_needs(course_notebooks):
    released = notebooks.release("week01", course_notebooks)
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


def test_an_inserted_cell_renames_no_other(course_notebooks):
    before = [cell.id for cell in notebooks.release("week01", course_notebooks).cells]
    rewrite_source(course_notebooks, TINY_SOURCE.replace("# %%\nimport", "# %%\nprint('new')\n\n# %%\nimport"))
    after = [cell.id for cell in notebooks.release("week01", course_notebooks).cells]
    assert len(after) == len(before) + 1 and set(before) < set(after)


def test_an_edited_source_makes_the_notebook_stale(course_notebooks):
    assert notebooks.is_stale("week01", course_notebooks)
    notebooks.build("week01", course_notebooks)
    assert not notebooks.is_stale("week01", course_notebooks)
    rewrite_source(course_notebooks, TINY_SOURCE.replace("# Week 1", "# Week one"))
    assert notebooks.is_stale("week01", course_notebooks)


def test_someones_answers_are_overwritten_only_by_force(course_notebooks):
    path = notebooks.build("week01", course_notebooks)
    path.write_text(path.read_text().replace("# Your code here.", "return number * 2"))
    with pytest.raises(ValueError, match="contains answers in week01-double, week01-triple"):
        notebooks.build("week01", course_notebooks)
    notebooks.build("week01", course_notebooks, force=True)
    assert not notebooks.is_stale("week01", course_notebooks)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('exercise="week01.triple"', 'exercise="week01.double"', "used for more than one cell"),
        ('check="week01.triple"', 'check="week01.other"', "has no exercise cell"),
        ("points=3", "points=0", "write a positive number"),
        ("# %%\nimport math", "# %% optional=true\nimport math", "which only a check can have"),
        ("points=3", "points=0 optional=true", "write a positive number"),
        ('manual="week01.interview"', 'manual="week01.interview" optional=true', "which only a check can have"),
        ('exercise="week01.double"', 'exercise="week01.double" optional=true', "which only a check can have"),
        ('# %% exercise="week01.triple"', "# %%", "has no exercise cell"),
        ("import math", "### BEGIN SOLUTION", "no end solution"),
        (
            "# %% [markdown]\n# # Week 1",
            "# %% [markdown] A first sentence\n# # Week 1",
            "no reader sees 'A first sent",
        ),
    ],
)
def test_a_broken_source_is_refused_with_a_sentence(course_notebooks, old, new, sentence):
    rewrite_source(course_notebooks, TINY_SOURCE.replace(old, new))
    with pytest.raises(ValueError, match=sentence):
        notebooks.build("week01", course_notebooks)


def test_an_unknown_week_lists_the_weeks_there_are(course_notebooks):
    assert notebooks.weeks(course_notebooks) == [TINY_WEEK]
    with pytest.raises(ValueError, match="use one of week01_tiny"):
        notebooks.build("week09", course_notebooks)


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


# ---- A hidden week is not copied to students or listed; once shown, it appears, and no learner's work is lost. -------

NAMES = ["week00_start", "week01_collectives", "week02_ddp"]


@pytest.fixture
def root(tmp_path):
    for name in NAMES:
        (tmp_path / "course" / name).mkdir(parents=True)
        shutil.copy(course.pages() / name / f"{name}.ipynb", tmp_path / "course" / name)
    return tmp_path


def test_a_hidden_week_comes_once_it_is_shown(root):
    pages = root / "course"
    assert hiding.change(["week02_ddp"], root=root) == ["week02_ddp"]
    folder, laid_out = begin(root / "work", pages)
    assert laid_out == folder.weeks() == NAMES[:2]
    assert not any(one.startswith("week02") for one in folder.exercises())
    with pytest.raises(ValueError, match="no week is called 'week02'"):
        folder.week("week02")
    assert hiding.change([], root=root) == ["week02_ddp"]
    assert hiding.change(["week02_ddp"], show=True, root=root) == []
    assert not (pages / page.HIDDEN).exists()
    assert begin(root / "work", pages)[1] == ["week02_ddp"]


def test_what_a_learner_has_begun_stays_when_its_week_is_hidden(root):
    folder, _ = begin(root / "work", root / "course")
    before = folder.notebook("week01_collectives").read_bytes()
    hiding.change(["week01_collectives"], root=root)
    assert begin(root / "work", root / "course")[1] == []
    assert folder.notebook("week01_collectives").read_bytes() == before
    assert folder.weeks() == ["week00_start", "week02_ddp"]


def test_one_week_is_left(root):
    with pytest.raises(ValueError, match="would hide every week"):
        hiding.change(NAMES, root=root)
    assert page.weeks_of(root / "course") == NAMES


@pytest.mark.parametrize("wrong", ["no JSON", '{"week01": true}', "[1]"])
def test_a_file_that_is_no_list_is_refused_with_a_sentence(root, wrong):
    (root / "course" / page.HIDDEN).write_text(wrong)
    with pytest.raises(ValueError, match=r"hidden\.json.*or delete it"):
        page.weeks_of(root / "course")


def test_the_command_lists_and_refuses():
    assert CliRunner().invoke(app, ["hide"]).output == "hidden: none\n"
    unknown = CliRunner().invoke(app, ["hide", "week77"])
    assert unknown.exit_code == 2 and "week77" in unknown.output
