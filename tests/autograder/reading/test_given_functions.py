""""""

import ast
import sys
from pathlib import Path

import pytest
import torch

from autograder import weeks
from autograder.authoring import notebooks
from autograder.jobs import student
from autograder.jobs.statements import statements_of
from autograder.judging.submission import _judged
from autograder.matrices.kept import DOCUMENTED, without_words
from autograder.reading import program
from autograder.reading.answers import answer_of
from autograder.reading.ingest import Submission

# ---- Given functions are restored, and a program does not depend on its comments and docstrings. ---------------------

# When the grader calls a function given on the page, it calls the page's copy, not a student's changed one


CHECKS = {check.exercise: check for checks in weeks.WEEKS.values() for check in checks}


def released(exercise):
    week = notebooks.find_week(exercise.partition(".")[0])
    own = notebooks.grade_id(exercise)
    return next(cell.source for cell in notebooks.release(week).cells if cell.id == own)


def given_functions(exercise):
    given = {name for one in program.given_in(released(exercise)) for name in one.binds}
    return [name for name in CHECKS[exercise].names if name in given]


@pytest.fixture(scope="module")
def called():
    """Every exercise with each given function that is called for it."""
    return [(exercise, name) for exercise in CHECKS for name in given_functions(exercise)]


def handed_in(exercise, source):
    """The page's solutions, with this text in the exercise's cell."""
    week = notebooks.find_week(exercise.partition(".")[0])
    solved = {cell.id: cell.source for cell in notebooks.read_source(week).cells}
    marked = [cell for cell in notebooks.release(week).cells if cell.metadata.get("nbgrader", {}).get("solution")]
    answers = {cell.id: solved[cell.id] for cell in marked}
    return Submission("ada", week, answers | {notebooks.grade_id(exercise): source})


def without(source, name):
    """A cell's text without the statement that binds a name."""
    lines = source.splitlines(keepends=True)
    for node in ast.parse(source).body:
        if name in statements_of(ast.unparse(node))[0].binds:
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))]) - 1
            lines[first : node.end_lineno] = ["\n"] * (node.end_lineno - first)
    return "".join(lines)


def loaded(exercise, source, monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    names = CHECKS[exercise].names
    answer = answer_of(exercise, names, handed_in(exercise, source))
    return student.load(program.planned(answer, names), names, callables=True)


def solved(exercise):
    week = notebooks.find_week(exercise.partition(".")[0])
    own = notebooks.grade_id(exercise)
    return next(cell.source for cell in notebooks.read_source(week).cells if cell.id == own)


def test_the_pages_have_such_functions(called):
    assert len(called) >= 15 and ("week11.fifty-steps", "balanced") in called


def test_a_redefinition_in_the_exercises_cell_is_not_called(called, monkeypatch):
    for exercise, name in called:
        mine = f"{without(solved(exercise), name)}\ndef {name}(*args, **kwargs): return 'mine'\n"
        function = loaded(exercise, mine, monkeypatch)[name]
        assert getattr(function, "func", function).__code__.co_filename != f"<{exercise}>", (exercise, name)


def test_one_that_was_deleted_is_there(called, monkeypatch):
    for exercise, name in called:
        function = loaded(exercise, without(solved(exercise), name), monkeypatch)[name]
        assert getattr(function, "func", function).__code__.co_filename != f"<{exercise}>", (exercise, name)


def test_what_it_calls_is_the_students_answer_and_the_pages_helpers(monkeypatch):
    exercise = "week11.fifty-steps"
    mine = (
        solved(exercise) + "\ndef next_bias(bias, load, step):\n    globals()['balanced'] = None\n    return bias + 1\n"
    )
    biases = loaded(exercise, mine, monkeypatch)["balanced"](torch.zeros(2, 8, 4), 2)
    assert biases.tolist() == [[1.0] * 4, [2.0] * 4]


A07 = '''
def next_bias(bias, load, step):
    raise RuntimeError("I have no rule")


def balanced(batches, k):
    """Sees every token of every step, which no real system does."""
    steps, _, E = batches.shape
    scores = batches.reshape(-1, E).sigmoid()
    bias = torch.zeros(E)
    for it in range(400):
        load = torch.bincount((scores + bias).topk(k, -1).indices.flatten(), minlength=E).double()
        bias = (bias - 0.2 / (1 + it / 10) * (load / load.mean() - 1).clamp(-1, 1)).float()
    return bias.expand(steps, E).clone()
'''


def test_a_given_function_that_sees_everything_earns_nothing(judge):
    exercise = "week11.fifty-steps"
    check, submission = CHECKS[exercise], handed_in(exercise, A07)
    verdict = _judged(judge, check, answer_of(exercise, check.names, submission), 3)
    assert verdict.points == 0 and "I have no rule" in verdict.text


# ---- A program's hash ignores prose, so rows that took hours stay valid when comments and docstrings change ----------


ROOT = Path(__file__).parents[3]
PROGRAM = '''"""Says what it is."""

# A comment with "quotes".
LIMIT = 3  # of these


class One:
    """Documented, with an umlaut: ü."""

    def two(self) -> str:
        """First line.

        More of it.
        """
        return "a # that stays"  # and why
'''


def test_comments_docstrings_and_empty_lines_go():
    assert without_words(PROGRAM) == (
        'LIMIT = 3\nclass One:\n    def two(self) -> str:\n        return "a # that stays"'
    )


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Says what it is.", "Says more.", True),
        ("# and why", "# for another reason", True),
        ("First line.", "First line, and\n        a second.", True),
        ("a # that stays", "another message", False),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("class One:\n", "class One:\n    three = 3\n", False),
    ],
)
def test_only_code_tells_programs_apart(old, new, same):
    assert (without_words(PROGRAM) == without_words(PROGRAM.replace(old, new))) is same


def test_a_string_that_is_no_docstring_stays():
    assert without_words('x = 1\n"""not the first statement"""\n') == 'x = 1\n"""not the first statement"""'


def test_no_code_of_the_grader_is_lost():
    cells = {ROOT / "autograder" / "matrices" / "forgeries.py"}  # each begins with a string
    for path in {*(ROOT / "autograder").rglob("*.py")} - cells:
        source = path.read_text()
        assert ast.dump(ast.parse(without_words(source))) == ast.dump(_bare(source)), path


def _bare(source):
    """Return the tree without docstrings; a class with only a docstring gets `pass`."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree
