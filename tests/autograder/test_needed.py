"""What of a notebook runs in a rank: what the answer needs, and no demonstration."""

import ast

import pytest

from autograder import known, weeks
from autograder.jobs import student
from autograder.jobs.needed import Needs, binds


def run(cells, names=("answer",)):
    return student.run_cells({"cells": cells}, names)


@pytest.mark.parametrize(
    ("source", "bound"),
    [
        ("import os.path, torch as t", {"os", "t"}),
        ("a, (b, *c) = 1, (2, 3)", {"a", "b", "c"}),
        ("table.rows[1] = 2", {"table"}),
        ("try:\n    def f(): inner = 1\nexcept ImportError:\n    f = None", {"f"}),
        ("for i in range(3):\n    with open(i) as file:\n        rows[i] = 1", {"i", "file", "rows"}),
        ("total += 1", {"total"}),
        ("print(x)", set()),
    ],
)
def test_what_a_statement_binds(source, bound):
    assert binds(ast.parse(source).body[0]) == bound


def test_needs_are_followed_through_functions_and_stop_at_local_names():
    page = "import torch\nfigure = draw()\nWIDTH = 3\ndef helper(): return WIDTH\ndef f(figure): return helper()\n"
    found = Needs(ast.parse(page).body).of({"f"})
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


def test_magic_lines_are_left_out_and_percent_signs_in_texts_stay():
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
