"""Answers are found wherever they are in a notebook, and judged as a kernel runs it."""

import contextlib
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from autograder import weeks
from autograder.authoring import notebooks
from autograder.grading import grade
from autograder.jobs import call, plain
from autograder.jobs.message import End, Report
from autograder.jobs.seat import Seat
from autograder.judging.judge import Judge
from autograder.reading import program
from autograder.reading.answers import answer_of, cells_of, note_of
from autograder.reading.cell_text import read
from autograder.reading.ingest import parse, take_cells
from autograder.weeks import find
from tests.autograder.habits import HABITS, book_of

# ---- Which cells a rank gets, and which one is the answer: the same as when a notebook is run from the top. ----------

WEEK, BILL = "week01_collectives", "week01.naive-bill"
NAMES = find(BILL).names
RIGHT = (
    "def naive_all_reduce_bill(num_ranks, num_bytes):\n    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes"
)
WRONG = "def naive_all_reduce_bill(num_ranks, num_bytes):\n    return 0, 0"


def released():
    return nbformat.read(notebooks.release_path(WEEK), 4)


def place_of(notebook, name):
    return next(place for place, cell in enumerate(notebook.cells) if cell.id == name)


def submission_of(notebook):
    return take_cells(parse(nbformat.writes(notebook).encode()), "ada", WEEK)


def handed_in(answers, new_cells=()):
    """The released notebook with these answers, and new cells (id of the cell above, source)."""
    notebook = released()
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    for above, source in new_cells:
        notebook.cells.insert(place_of(notebook, above) + 1, new_code_cell(source))
    return submission_of(notebook)


def bill(submission):
    return answer_of(BILL, NAMES, submission)


def judged(judge, submission, exercise=BILL):
    check = find(exercise)
    return judge.judge(check, answer_of(exercise, check.names, submission), 3)


OWN, CHECK, LATER = "week01-naive-bill", "week01-naive-bill-check", "week01-exchange"


@pytest.mark.parametrize(
    ("answers", "new_cells", "is_right"),
    [
        ({OWN: RIGHT}, [], True),
        ({}, [(OWN, RIGHT)], True),  # below an untouched stub
        ({}, [("week01-reading-check", RIGHT)], True),  # at the very end
        ({}, [(OWN, WRONG), (CHECK, RIGHT)], True),  # the last one counts
        ({}, [(OWN, RIGHT), (CHECK, WRONG)], False),
        ({LATER: RIGHT}, [], True),  # in another exercise's cell
        ({OWN: RIGHT}, [(CHECK, WRONG)], True),  # below the check: an experiment
        ({OWN: RIGHT}, [(OWN, WRONG)], False),  # between the cell and its check: overridden, as in the notebook
        ({OWN: WRONG}, [(OWN, RIGHT)], True),
        ({OWN: "# see below\n"}, [(OWN, RIGHT)], True),
        ({OWN: RIGHT, LATER: WRONG}, [], True),
    ],
)
def test_the_answer_is_what_the_notebook_has_at_the_check(judge, answers, new_cells, is_right):
    assert judged(judge, handed_in(answers, new_cells)).is_right == is_right


def test_an_answer_above_the_stub_or_without_it_is_taken_too(judge):
    notebook = released()
    notebook.cells.insert(place_of(notebook, OWN), new_code_cell(RIGHT))
    assert judged(judge, submission_of(notebook)).is_right
    del notebook.cells[place_of(notebook, OWN)]
    assert judged(judge, submission_of(notebook)).is_right


def test_a_remark_in_the_stub_is_no_answer(judge):
    stub = next(cell.source for cell in released().cells if cell.id == OWN)
    assert judged(judge, handed_in({OWN: f"# I wrote it below\n{stub}"}, [(OWN, RIGHT)])).is_right
    assert "Not answered yet" in judged(judge, handed_in({OWN: f"# later\n{stub}"})).text


def test_one_function_in_the_cell_and_one_below_the_check(judge):
    exercise, own = "week01.ring-all-reduce", "week01-ring-all-reduce"
    whole = {cell.id: cell.source for cell in notebooks.read_source(WEEK).cells}
    stub = next(cell.source for cell in released().cells if cell.id == own)
    first, second = (part.index("def ring_all_reduce(") for part in (whole[own], stub))
    submission = handed_in({**whole, own: whole[own][:first] + stub[second:]}, [(f"{own}-check", whole[own][first:])])
    assert judged(judge, submission, exercise).is_right


def test_a_cell_cut_in_two_is_read_whole(judge):
    notebook = released()
    at = place_of(notebook, OWN)
    half = notebook.cells[at].copy()
    half.source = "def twice(number):\n    return 2 * number"
    notebook.cells[at].source = RIGHT.replace("2 * (num_ranks - 1)", "twice(num_ranks - 1)")
    notebook.cells.insert(at, half)
    submission = submission_of(notebook)
    assert judged(judge, submission).is_right and "occurs 2 times" in submission.notes[0]


def test_a_given_cell_that_was_changed_overrides_ours():
    notebook = released()
    given = next(cell for cell in notebook.cells if cell.source.startswith("def both_send_first"))
    given.source = "def both_send_first():\n    return 'changed'"
    names = [cell.name for cell in cells_of(submission_of(notebook))]
    ours = names.index("week01 extra 1") - 1
    assert names[ours].startswith("week01 given") and names[ours + 2] == "week01.exchange"


def test_the_sentence_says_where_the_answer_stood(judge, tmp_path):
    assert note_of(BILL, bill(handed_in({OWN: RIGHT}))) == ""
    assert "another cell was judged" in note_of(BILL, bill(handed_in({}, [(OWN, RIGHT)])))
    assert "the cell of exchange was judged" in note_of(BILL, bill(handed_in({LATER: RIGHT})))
    folder = tmp_path / "ada" / WEEK
    folder.mkdir(parents=True)
    notebook = released()
    notebook.cells.insert(place_of(notebook, CHECK), new_code_cell(RIGHT))
    nbformat.write(notebook, folder / f"{WEEK}.ipynb")
    told = grade.grade_one("ada", WEEK, tmp_path, judge, seed=1)["exercises"][BILL]
    assert told["points"] == told["max"] and "another cell was judged" in told["text"]


def test_no_cell_and_no_definition_is_no_answer():
    notebook = released()
    del notebook.cells[place_of(notebook, OWN)]
    assert bill(submission_of(notebook)) is None


COMMENTED = RIGHT.replace(":\n", ':\n    # raise NotImplementedError("your code is still missing here")\n', 1)
UNREACHABLE = RIGHT + '\n    raise NotImplementedError("your code is still missing here")'
STUB_LINE = '    raise NotImplementedError("your code is still missing here")'
HALF_DONE = f"def naive_all_reduce_bill(a, b):\n    a += 1\n{STUB_LINE}"


@pytest.mark.parametrize("source", [COMMENTED, UNREACHABLE], ids=["comment", "unreachable"])
def test_a_stub_that_is_never_reached_is_no_stub(judge, source):
    notebook = released()
    notebook.cells[place_of(notebook, OWN)].source = source
    notebook.cells.insert(place_of(notebook, OWN), new_code_cell(WRONG))  # an old attempt
    notebook.cells.insert(place_of(notebook, CHECK) + 1, new_code_cell(WRONG))  # an experiment
    assert judged(judge, submission_of(notebook)).is_right


def test_an_answer_that_ends_in_its_stub_is_none():
    assert note_of(BILL, bill(handed_in({OWN: HALF_DONE}, [(OWN, RIGHT)])))


def test_an_answer_in_the_checks_cell_is_read_and_named(judge):
    notebook = released()
    check = notebook.cells[place_of(notebook, CHECK)]
    check.source = f"{RIGHT}\n{check.source}"
    submission = submission_of(notebook)
    assert judged(judge, submission).is_right
    assert "your cell that begins with `def naive_all_reduce_bill" in note_of(BILL, bill(submission))


def test_of_a_check_only_new_names_are_read():
    notebook = released()
    notebook.cells[place_of(notebook, CHECK)].source = "pass  # let me through"
    assert submission_of(notebook).extra == []


def test_an_own_cell_that_has_become_text_is_not_run(judge):
    notebook = released()
    place = place_of(notebook, OWN)
    notebook.cells[place].cell_type, notebook.cells[place].source = "markdown", "my thoughts"
    notebook.cells.insert(place + 1, new_code_cell(RIGHT))
    submission = submission_of(notebook)
    assert judged(judge, submission).is_right and "its text was not run: it is not Python" in submission.notes[0]


def test_of_a_changed_given_cell_only_the_difference_is_run():
    notebook = released()
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first.source += "\nimport numpy as np"
    notebook.cells[place_of(notebook, OWN)].source = RIGHT.replace("num_bytes\n", "np.abs(num_bytes)\n", 1)
    planned = program.planned(bill(submission_of(notebook)), NAMES)
    run = [cell for cell in planned["cells"] if cell["run"]]
    imported = [read(cell["code"])[1][number] for cell in run for number in cell["run"] if "extra" in cell["name"]]
    assert [sorted(one.binds) for one in imported] == [["np"]] or imported == []
    assert not any("figures" in one.binds for one in imported)


def test_other_line_ends_change_nothing():
    notebook = released()
    for cell in notebook.cells:
        cell.source = cell.source.replace("\n", "\r\n")
    assert submission_of(notebook).extra == []


# ---- Right solutions keep their points in any style: the grade runs what a kernel would run. Formulas and values are
# judged in this process, hundreds of notebooks per minute; one notebook of each habit has ranks, in the sandbox.

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
