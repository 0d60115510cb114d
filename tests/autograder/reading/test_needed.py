""""""

import ast
import sys

import pytest

from autograder import weeks
from autograder.jobs import student
from autograder.jobs.needed import Needs, PlacedStatement
from autograder.jobs.statements import Statement, statements_of
from autograder.matrices import known
from autograder.reading import program
from tests.autograder.habits import TABLES

# ---- A rank runs the statements that the answer needs or that can change it, and no demonstrations. ------------------


@pytest.fixture(autouse=True)
def own_main(monkeypatch):
    """Run cells as a module called `__main__`, in this process."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


def run(cells, names=("answer",)):
    planned = program.planned({"cells": cells}, names)
    return student.run_cells(planned, names, student.Loading())


@pytest.mark.parametrize(
    ("source", "bound"),
    [
        ("import os.path", {"os"}),
        ("import torch as t", {"t"}),
        ("a, (b, *c) = 1, (2, 3)", {"a", "b", "c"}),
        ("table.rows[1] = 2", {"table"}),
        ("try:\n    def f(): inner = 1\nexcept ImportError as e:\n    f = None", {"f", "e"}),
        ("for i in range(3):\n    with open(i) as file:\n        rows[i] = 1", {"i", "file", "rows"}),
        ("total += 1", {"total"}),
        ("del rows[0], one", {"rows", "one"}),
        ("print([x for x in y if (last := x)])", {"last"}),
        ("match a:\n    case [first, *rest]: pass\n    case {'k': k, **more}: pass", {"first", "rest", "k", "more"}),
        ("f = lambda x: (y := x)", {"f"}),
        ("print(x)", set()),
    ],
)
def test_what_a_statement_binds(source, bound):
    assert Statement(ast.parse(source).body[0]).binds == bound


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("def f(x: T = D, *a) -> R:\n    y = x + G\n    return [z for z in y]", {"T", "D", "R", "G"}),
        ("def f():\n    global n\n    n += 1", {"n"}),
        ("def f():\n    table[1] = 2\n    def g(): return table, f", {"table", "f"}),
        ("class A(B):\n    size = 3\n    def f(self): return size", {"B", "size"}),
        ("@wraps(h)\ndef f(h): return lambda h: (h, k)", {"wraps", "h", "k"}),
        ("x += 1", {"x"}),
        ("f'{a + b[c]:{d}}'", {"a", "b", "c", "d"}),
    ],
)
def test_what_a_statement_looks_up(source, read):
    assert Statement(ast.parse(source).body[0]).reads == read


def test_needs_are_followed_through_functions_and_stop_at_local_names():
    page = "import torch\nfigure = draw()\nWIDTH = 3\ndef helper(): return WIDTH\ndef f(figure): return helper()\n"
    found = Needs([PlacedStatement(one, is_given=True) for one in statements_of(page)]).of({"f"})
    assert found == {2, 3, 4}


GIVEN = """
import math
from textwrap import dedent
shown = explode()
rates = {}
rates["a"] = 2
order = []
order.append(math.pi)
for name in ("b", "c"):
    rates[name] = 3
try:
    from nowhere import helper
except ImportError:
    def helper(): return sum(rates.values())
explode()
class Shape:
    sides = 4
"""


def test_the_answer_finds_what_given_cells_define_and_nothing_else_runs():
    own = "def answer():\n    shown = 1\n    return helper(), order, Shape.sides"
    space = run([["week given", GIVEN, False, True], ["week01.own", own, True]])
    assert space["answer"]() == (8, [3.141592653589793], 4)
    assert not {"shown", "dedent"} & set(space)


def test_an_import_of_several_names_is_an_import_of_each():
    cells = [
        ["week given", "from math import nothing_like_it, tau", False, True],
        ["b", "def answer(): return tau", True],
    ]
    assert run(cells)["answer"]() > 6
    assert "inf" not in run([["a", "from math import inf, tau", False, True], cells[1]])


def test_order_is_the_notebooks():
    cells = [["a", "RATE = 1", False], ["b", "def answer(): return RATE", True], ["c", "RATE = 2", False]]
    assert run(cells)["answer"]() == 2
    assert run(cells[::-1])["answer"]() == 1


def test_magic_lines_do_nothing_and_percent_signs_in_texts_stay():
    assert run([["own", "%time 1\ndef answer():\n    !ls\n    return 3", True]])["answer"]() == 3
    assert run([["own", 'def answer(): return """\n%d""" % 3', True]])["answer"]() == "\n3"


def test_an_error_in_what_the_answer_does_not_need_is_passed_over():
    own = "def answer(): return 1\nlosses = run_on_ranks(answer)\nprint(losses)\nLATER = 2"
    assert run([["own", own, True]])["LATER"] == 2
    with pytest.raises(NameError, match="undefined"):
        run([["own", "SIZE = undefined\ndef answer(): return SIZE", True]])
    with pytest.raises(ZeroDivisionError):
        run([["own", "1 / 0", True]])


def test_a_cell_that_tries_its_answer_out_on_ranks_is_judged_all_the_same(judge):
    exercise = "week01.exchange"
    source = known.find("week01.exchange", "right_even_sends_first").source
    trial = "\nresults = shardlab.run(exchange, torch.ones(4), ranks=2)\nprint(results[0])\n"
    page = ["week01 given 2", "import shardlab, torch\nimport torch.distributed as dist", False, True]
    verdict = judge.judge(weeks.find(exercise), {"cells": [page, [exercise, source + trial, True]]}, 3)
    assert verdict.is_right, verdict.text


@pytest.mark.every_case
@pytest.mark.parametrize("habit", TABLES)
@pytest.mark.parametrize("is_own", [False, True], ids=["helper cell", "own cell"])
def test_what_a_kernel_has_done_to_a_table_is_done(habit, is_own):
    answer = "def answer(): return T"
    cells = (
        [["own", f"{TABLES[habit]}\n{answer}", True]]
        if is_own
        else [
            ["week01 extra 1", TABLES[habit], False],
            ["own", answer, True],
        ]
    )
    assert run(cells)["answer"]() == [0, 1, 2]


def test_what_cannot_be_run_is_told_with_its_cell_and_line():
    cells = [
        ["week01 extra 1", "T = []\nfor i in range(2):\n    T.append(i)\n    1 / 0", False],
        ["own", "def answer(): return T", True],
    ]
    loading = student.Loading()
    student.run_cells(program.planned({"cells": cells}, ["answer"]), ["answer"], loading)
    (told,) = program.passed_over({"cells": cells}, loading.not_run)
    assert told == "Your cell that begins with `T = []`: line 2 could not be run. ZeroDivisionError: division by zero"
    cells[0][1] = "x = = 1"
    (told,) = program.not_run({"cells": cells})
    assert told == "Your cell that begins with `x = = 1` was not run: it is not Python in line 1: invalid syntax."


@pytest.mark.parametrize(
    "claims", [None, 3, ["x"], ["own\nx\ny"], ["a\n1\nb"], [b"own"], [["own"]], ["own\n" + "9" * 9999 + "\nb"]]
)
def test_claims_of_a_rank_that_make_no_sense_are_left_out(claims):
    assert program.passed_over({"cells": [["own", "1", True]]}, claims) == []


def test_no_demonstration_is_run(monkeypatch):
    monkeypatch.setattr(student, "MOST_SECONDS", 0.05)
    shows = "from nowhere import slow\nlosses = [slow(n) for n in range(9)]\nexplode(losses)"
    endless = "T = [3]\nfor one in iter(T, None):\n    pass"
    space = run(
        [["week01 extra 1", shows, False], ["week01 extra 2", endless, False], ["own", "def answer(): return T", True]]
    )
    assert space["answer"]() == [3] and "losses" not in space


HOSTILE = {
    "brackets": "(" * 5000,
    "minus": "-" * 40_000 + "1",
    "attributes": "f" + ".a" * 20_000,
    "sum": "a" + "+a" * 20_000,
    "lambdas": "lambda:" * 6000 + "1",
    "magics": "x = !ls\n" * 6000,
    "questions": "f?\n" * 10_000,
    "finally": "\n".join(" " * level + "try: pass\n" + " " * level + "finally:" for level in range(90))
    + "\n"
    + " " * 90
    + "x",
    "zero byte": "x = '\0'",
    "long": "x = 1\n" * 20_000,
    "digits": "x = " + "9" * 40_000,
    "f-strings": "f'{" * 100 + "x" + "}'" * 100,
}


@pytest.mark.every_case
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_cell_is_no_more_than_a_cell_that_is_not_run(kind):
    cells = [["week01 extra 1", HOSTILE[kind], False], ["own", "def answer(): return 1", True]]
    assert program.planned({"cells": cells}, ["answer"])["refused"] == ""
    cells = [["own", HOSTILE[kind], True]]
    assert isinstance(program.planned({"cells": cells}, ["answer"])["refused"], str)
