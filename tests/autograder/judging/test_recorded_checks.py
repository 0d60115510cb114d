""""""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from random import Random

import nbformat
import pytest
import torch.distributed as dist
from nbgrader.validator import Validator
from shardlab.study import page, records, update
from shardlab.study.folder import begin

from autograder import check, weeks
from autograder.authoring import hints, notebooks
from autograder.authoring.course import ROOT
from autograder.checks.base import Reply, Task
from autograder.grading.grade import grade_one
from autograder.judging import self_check
from autograder.judging.judge import Verdict
from autograder.judging.measured import noting

# ---- Checks in a learner's folder are recorded, with traffic; never while a page is graded or validated. -------------

WEEK = "week00_start"
EXERCISE = "week00.first-all-reduce"


def test_what_a_rank_reports_costs_no_check():
    """Recording fails on a report without the ranks' numbers; the check's own sentence is still shown."""
    found = []
    noted = noting(replace(weeks.find(EXERCISE), judge=lambda *_: "the check's own sentence"), found)
    odd = Reply([{"events": [["send", None, None, "many", "bytes"]]}], None, 0, "")
    assert noted.judge({}, Task(None, 1, [], []), odd) == "the check's own sentence" and found == []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The real course in a learner's folder, with the test inside it."""
    found, _ = begin(tmp_path / "work", ROOT / "course")
    monkeypatch.chdir(found.path / WEEK)
    return found


def total_of(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total


def wrong_total_of(tensor, *, group):
    return tensor


def rows(folder):
    return records.read(folder.records)[0]


def test_a_check_records_points_and_what_was_sent(folder):
    assert check(EXERCISE, total_of) == 1 and check(EXERCISE, wrong_total_of, hint=2) == 0
    right, wrong = rows(folder)
    assert (right["exercise"], right["points"], right["whole"]) == (EXERCISE, 1, True) and "hint" not in right
    assert [one["case"] for one in right["measured"]] == [dict(case) for case in weeks.find(EXERCISE).public]
    assert right["measured"][0]["sent_bytes"] == [16, 16] and right["measured"][0]["calls"] == [1, 1]
    assert wrong["hint"] == 2 and wrong["answer"] != right["answer"]


def test_a_blank_answer_and_other_cases_are_marked(folder):
    def total_of(tensor, *, group):
        raise NotImplementedError("your code is still missing here")

    check(EXERCISE, total_of)
    check(EXERCISE, wrong_total_of, cases=[{"ranks": 2, "numbers": 4}])
    blank, other = rows(folder)
    assert blank["blank"] and "hint" not in blank and not other["whole"]


def test_a_record_that_fails_costs_no_check(folder, capsys):
    folder.records.mkdir()
    assert check(EXERCISE, total_of) == 1
    assert "✓" in (said := capsys.readouterr().out) and "not recorded" in said


def test_a_machines_fault_is_no_try(folder, monkeypatch):
    class Faulty:
        def judge(self, found, *_):
            return Verdict(found.exercise, 0.0, found.points, "Not graded.", fault=True)

    monkeypatch.setattr(self_check, "_judge", Faulty)
    check(EXERCISE, total_of)
    assert rows(folder) == []


def test_nothing_is_recorded_outside_of_a_folder(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    check(EXERCISE, total_of)
    assert rows(folder) == []


def hand_in(folder, submitted, week=WEEK, cell=""):
    """Submit a learner's page, with an extra cell at the top."""
    notebook = nbformat.read(folder.notebook(week), 4)
    if cell:
        notebook.cells.insert(1, nbformat.v4.new_code_cell(cell))
    path = submitted / "ada" / week / f"{week}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)


def solve(folder, week):
    """Write the course's own solutions into the learner's page."""
    solved = {cell.id: cell.source for cell in notebooks.read_source(week).cells}
    notebook = page.read(folder.notebook(week))
    for cell in notebook.cells:
        if page.is_answer(cell):
            cell.source = solved[cell.id]
    page.write(folder.notebook(week), page.text_of(notebook))


CHECKED_IN_THE_GRADE = f"""
import os
os.chdir({{place!r}})
from autograder import check
from shardlab import study
def total_of(tensor, *, group):
    study.note("check", exercise="{EXERCISE}", points=1)
    check("{EXERCISE}", total_of)
"""


def test_nothing_is_recorded_while_the_grader_grades(folder, tmp_path, judge):
    hand_in(folder, tmp_path / "submitted", cell=CHECKED_IN_THE_GRADE.format(place=str(folder.path)))
    graded = grade_one("ada", WEEK, tmp_path / "submitted", judge, 1)
    assert graded["exercises"][EXERCISE]["points"] == 0 and rows(folder) == []


def test_nothing_is_recorded_while_nbgrader_validates(folder):
    """nbgrader runs the page in a kernel, as its button does; only the study's own line is recorded."""
    source = f'from shardlab import study\nassert study.note("check", exercise="{EXERCISE}") == ""'
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    path = folder.notebook(WEEK).with_name("line.ipynb")
    nbformat.write(notebook, path)
    result = Validator().validate(str(path))
    assert "failed" not in result and rows(folder) == []
    subprocess.run([sys.executable, "-c", source], cwd=path.parent, check=True)
    assert len(rows(folder)) == 1, "the same line is recorded when it is not validated"


def test_the_hints_of_the_course_are_those_of_the_checks():
    assert not hints.are_stale(), "run `make notebooks`: course/hints.json is older than the checks"


def test_hints_are_stale_where_there_are_none(tmp_path):
    assert hints.are_stale(tmp_path)


@pytest.mark.slow
def test_the_solutions_bytes_are_measured_as_the_learners():
    program = [sys.executable, "-m", "autograder.cli", "measure", EXERCISE]
    ended = subprocess.run(program, capture_output=True, text=True, check=True)
    theirs = json.loads(ended.stdout)
    assert theirs[0]["sent_bytes"] == [16, 16]
    lost = subprocess.run([*program[:-1], "week00.nothing"], capture_output=True, text=True, check=False)
    assert lost.returncode == 2 and "no exercise" in lost.stderr


def another_page(cells, rng, number):
    """Make a newer version of a real page: reworded text, added and removed cells, the same exercises."""
    plain = [place for place, cell in enumerate(cells) if not page.marks(cell) and cell.cell_type == "markdown"]
    for place in rng.sample(plain, 3):
        cells[place].source += f"\n\nIn other words ({number})."
    cells.insert(rng.choice(plain), nbformat.v4.new_markdown_cell(f"New in version {number}."))
    if rng.random() < 0.5:
        del cells[rng.choice(plain[1:])]
    seen = Counter()
    for cell in cells:
        if not page.marks(cell):
            seen[cell.source] += 1
            cell.id = page.content_id(cell.cell_type, seen[cell.source], cell.source)
    return cells


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_real_week_passes_its_checks_after_twenty_updates(tmp_path, judge):
    week, rng = "week01_collectives", Random(602)
    (tmp_path / "course" / week).mkdir(parents=True)
    released = page.read(notebooks.release_path(week))
    page.write(page.page_path(tmp_path / "course", week), page.text_of(released))
    folder, _ = begin(tmp_path / "work", tmp_path / "course")
    solve(folder, week)
    for number in range(20):
        mine = page.read(folder.notebook(week))
        place = rng.randrange(1, len(mine.cells))
        mine.cells.insert(place, nbformat.v4.new_code_cell(f"my_own_{number} = {number}"))
        answers = [place for place, cell in enumerate(mine.cells) if page.is_answer(cell)]
        mine.cells.insert(rng.choice(answers), mine.cells.pop(rng.choice(answers)))
        page.write(folder.notebook(week), page.text_of(mine))
        released.cells = another_page(released.cells, rng, number)
        page.write(page.page_path(tmp_path / "course", week), page.text_of(released))
        assert update.update(folder, week) is not None
    now = page.read(folder.notebook(week))
    assert {f"my_own_{number} = {number}" for number in range(20)} <= {cell.source for cell in now.cells}
    hand_in(folder, tmp_path / "submitted", week)
    graded = grade_one("ada", week, tmp_path / "submitted", judge, 1)
    lost = {name: one["text"] for name, one in graded["exercises"].items() if one["points"] < one["max"]}
    assert lost == {} and len(graded["exercises"]) == len(weeks.of_week(week))
