"""Right solutions keep their points in any style: the grade runs what a kernel would run.

Formulas and values are judged in this process, hundreds of notebooks per minute; one notebook of each habit has ranks,
in the sandbox.
"""

import contextlib
import sys

import nbformat
import pytest

from autograder import weeks
from autograder.authoring import notebooks
from autograder.jobs import call, plain
from autograder.jobs.message import End, Report
from autograder.jobs.seat import Seat
from autograder.judging.judge import Judge
from autograder.reading.answers import answer_of
from autograder.reading.ingest import parse, take_cells
from tests.autograder.habits import HABITS, book_of

CHECKS = [check for checks in weeks.WEEKS.values() for check in checks]
FORMULAS = [check.exercise for check in CHECKS if check.program == "without_ranks"]
ON_RANKS = [check.exercise for check in CHECKS if check.program == "on_rank" and not check.trains]
MOST_CASES = 2  # public ones: these tests vary the notebook
OF_A_HABIT = 3  # formulas per habit, taken in turn so that all are covered


class Here:
    """A zygote that runs a formula in this process, without any isolation: for answers that we wrote."""

    is_alive, level = True, 1

    def ask(self, job):
        answer, mine, _ = (plain.decode(part) for part in job.parcels())
        with contextlib.redirect_stdout(None):
            result = b"".join(call.without_ranks(Seat(0, job.request, answer, mine), lambda: None))
        return Report([End(result, None, 0, None)])

    def close(self):
        pass


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    return Judge(Here())


def verdict_on(judge, exercise, habit):
    book, check = book_of(exercise), weeks.find(exercise)
    HABITS[habit](book)
    text = nbformat.v4.writes(book.notebook) if "id" in book.notebook.cells[0] else _without_ids(book.notebook)
    submission = take_cells(parse(text.encode()), "ada", notebooks.find_week(exercise.partition(".")[0]))
    answer = answer_of(exercise, check.names, submission)
    assert answer is not None
    return judge.judge(check, answer, 3, check.public[:MOST_CASES])


def _without_ids(notebook):
    return nbformat.v4.nbjson.writes(notebook)


def of_habit(exercises, habit, count):
    first = list(HABITS).index(habit) * count
    return [exercises[(first + place) % len(exercises)] for place in range(count)]


def test_enough_are_generated():
    assert len(HABITS) * OF_A_HABIT >= 200
    assert {one for habit in HABITS for one in of_habit(FORMULAS, habit, OF_A_HABIT)} == set(FORMULAS)


@pytest.mark.every_case
@pytest.mark.parametrize("habit", HABITS)
def test_a_right_formula_keeps_its_points(here, habit):
    for exercise in of_habit(FORMULAS, habit, OF_A_HABIT):
        verdict = verdict_on(here, exercise, habit)
        assert verdict.is_right, f"{exercise}: {verdict.text}"


@pytest.mark.parametrize("habit", HABITS)
def test_a_right_answer_on_ranks_keeps_its_points(judge, habit):
    (exercise,) = of_habit(ON_RANKS, habit, 1)
    verdict = verdict_on(judge, exercise, habit)
    assert verdict.is_right, f"{exercise}: {verdict.text}"
