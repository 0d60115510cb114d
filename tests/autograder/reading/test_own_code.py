""""""

import json
import subprocess
import sys

import pytest
from shardlab.own.blocks import module_source
from shardlab.own.pieces import GIVEN, piece_of

from autograder import weeks
from autograder.judging import keeping, submission
from autograder.matrices import kill_matrix
from autograder.reading import stand_ins
from autograder.reading.own import NotExportable, block_of
from autograder.reading.own import modules_in as handed_in_modules

# ---- An answer is copied from its page to `mine/` with exactly what it needs, or a sentence says why it cannot be. ---

FLATTEN = piece_of("week03.flatten")
IMPORTS = "import torch, math\nimport torch.distributed as dist"
TWO = """def flatten_and_pad(tensors, n):
    return torch.cat(padded(tensors))

def unflatten(flat, tensors):
    return SIZE"""
HELPER = "def padded(tensors):\n    return [one.flatten() for one in tensors]"


def names(block):
    return [name for name, _ in block.parts]


def test_helpers_constants_and_imports_come_along_demonstrations_do_not():
    cells = [IMPORTS, "x = torch.randn(4)\nprint(x)", HELPER, "SIZE = 2**10", TWO, "flatten_and_pad([x], 2)"]
    block = block_of(FLATTEN, cells)
    assert names(block) == ["padded", "SIZE", "flatten_and_pad", "unflatten"]
    assert block.imports == ("import torch",)
    assert "### BEGIN" not in module_source("zero", {"week03.flatten": block})


def test_the_last_definition_counts_as_in_a_kernel():
    block = block_of(FLATTEN, [IMPORTS, "SIZE = 1", TWO, HELPER, HELPER.replace("flatten", "ravel"), "SIZE = 3"])
    assert ("SIZE", "SIZE = 3") in block.parts and "ravel" in dict(block.parts)["padded"]


def test_marks_of_solutions_are_left_out_and_other_comments_stay():
    text = "def flatten_and_pad(a, b):\n    ### BEGIN SOLUTION\n    return a  # why\n    ### END SOLUTION"
    source = dict(block_of(FLATTEN, [f"{text}\n\ndef unflatten(a, b): ..."]).parts)["flatten_and_pad"]
    assert source == "def flatten_and_pad(a, b):\n    return a  # why"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([IMPORTS, HELPER, "SIZE = 1"], "no cell defines flatten_and_pad"),
        ([IMPORTS, HELPER, "flatten_and_pad = unflatten = make()"], "with `def` or `class`"),
        ([IMPORTS, TWO, "SIZE = 1"], "uses padded, which no cell defines"),
        ([IMPORTS, TWO, HELPER, "SIZE = torch.randn(3)"], "reads SIZE, a variable of the notebook"),
        ([IMPORTS, TWO, HELPER, "SIZE = []\nSIZE[0] = 3"], "reads SIZE, a variable of the notebook"),
        ([IMPORTS, TWO, HELPER, "from shardlab.costs import SIZE"], "from shardlab, which `mine` cannot use"),
        ([IMPORTS, HELPER, "SIZE = 1", f"{TWO}\n\ndef mean_slice(): ..."], "also defines mean_slice, which belongs to"),
        ([IMPORTS, HELPER, "SIZE = 1", f"{TWO}\n\nmean_slice = 3"], "also defines mean_slice, which belongs to"),
        (["from torch import cat as SIZE, nn as torch", TWO, "padded = SIZE(1)"], "reads padded, a variable"),
    ],
)
def test_an_answer_that_cannot_leave_its_page_is_refused_with_a_remedy(cells, words):
    with pytest.raises(NotExportable) as refused:
        block_of(FLATTEN, cells)
    assert words in str(refused.value)
    assert ":" in str(refused.value)


def test_a_cell_that_is_no_python_is_passed_over():
    assert names(block_of(FLATTEN, [IMPORTS, "SIZE = 1", HELPER, TWO, "def broken(", "!ls", "%time 1"]))[0] == "SIZE"


def test_several_names_of_one_assignment_are_taken_one_by_one():
    cells = [IMPORTS, "cat, SIZE = torch.cat, 3", TWO.replace("torch.cat", "cat"), HELPER]
    assert ("SIZE", "SIZE = 3") in (parts := block_of(FLATTEN, cells).parts) and ("cat", "cat = torch.cat") in parts


SUM = """
import torch
import torch.distributed as dist
from mine.collectives import ring_all_reduce

def average_gradients(gradients, *, group):
    return [ring_all_reduce(one, group=group) / dist.get_world_size(group) for one in gradients]
"""


@pytest.fixture
def of_week_1(monkeypatch):
    """The course's ring as the only code in `mine`."""
    ring = """import torch
import torch.distributed as dist

def ring_all_reduce(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total
"""
    monkeypatch.setattr(stand_ins, "before", lambda exercise: {"collectives": ring} if exercise >= "week02" else {})


def test_a_graded_answer_may_use_the_courses_answers_of_earlier_weeks(of_week_1, judge):
    found = weeks.find("week02.average-gradients")
    answer = {"preamble": kill_matrix.PREAMBLE, "cells": [[found.exercise, SUM, True]]}
    assert judge.judge(found, answer, 1).is_right
    answer["cells"][0][1] = SUM.replace("mine.collectives", "mine.ddp")
    assert "No module named 'mine.ddp'" in judge.judge(found, answer, 1).text


AT_THE_DESK = """
import sys
from types import ModuleType
from autograder import check
from autograder.reading import stand_ins

ring, page = sys.argv[1:]
stand_ins.before = lambda exercise: {"collectives": ring}
sys.modules["mine.collectives"] = module = ModuleType("mine.collectives")
exec(ring, module.__dict__)
exec(page)
check("week02.average-gradients", average_gradients)
"""


def test_a_checked_function_finds_the_same(of_week_1):
    program = [sys.executable, "-c", AT_THE_DESK, stand_ins.before("week02")["collectives"], SUM]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert "2 of 2 points" in ended.stdout, ended.stdout + ended.stderr


def test_outside_of_a_learners_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert keeping.keep_passed("week03.flatten") == ""
    assert keeping.keep_passed("week03.state-bytes") == ""


def handed_in(**modules):
    """A page's cells as they are read; the last has this text of `mine/`."""
    return [{"packed": ""}, {"packed": json.dumps(modules)}]


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        ("not json", "could not be read"),
        ("[1]", "could not be read"),
        ('{"zero": 1}', "could not be read"),
        (json.dumps({"zero": "x" * 300_000}), "more than 200,000 characters"),
        ("9" * 500_000, "could not be read"),
        (json.dumps({"zero": "def ("}), "mine/zero.py was replaced by the course's version: it is not Python"),
        (json.dumps({"zero": "(" * 5000}), "mine/zero.py was replaced by the course's version: it is not Python"),
        (json.dumps({"zero": "def f(): 1\ndef f(): 2"}), "it defines f twice"),
        (json.dumps({"__init__": "1", "../x": "2"}), ""),
    ],
)
def test_a_mine_that_cannot_be_read_is_left_out_with_a_note(packed, words):
    modules, notes = handed_in_modules([{"packed": packed}])
    assert modules == {} and words in " ".join(notes)


def test_the_last_pack_of_a_page_counts():
    cells = [*handed_in(zero="x = 1"), *handed_in(zero="x = 2")]
    assert handed_in_modules(cells) == ({"zero": "x = 2"}, [])


def judged(judge, own):
    found = weeks.find("week02.average-gradients")
    answer = {"preamble": kill_matrix.PREAMBLE, "cells": [[found.exercise, SUM, True]], "own": {"collectives": own}}
    return submission._judged(judge, found, answer, 1)


def test_a_mine_that_was_handed_in_is_used_or_replaced(of_week_1, monkeypatch, judge):
    monkeypatch.setattr(stand_ins, "ASSEMBLES", "week02")
    ring = stand_ins.before("week02")["collectives"]
    assert judged(judge, ring.replace("total", "whole")).is_right
    wrong = judged(judge, ring.replace("return total", "return 2 * total"))
    assert wrong.is_right and "The course's mine/collectives.py was used" in wrong.text and "Hint" not in wrong.text
    assert judged(judge, "1 / 0").is_right
    assert judged(judge, "def other(): pass").is_right


def test_before_the_week_that_assembles_it_a_mine_plays_no_part(of_week_1, judge):
    verdict = judged(judge, "def ring_all_reduce(tensor, *, group):\n    return 0 * tensor")
    assert verdict.is_right and "was used" not in verdict.text


def test_a_name_that_begins_with_the_week_is_enough():
    """As `exhibits` uses it: the cell of a page, not an exercise."""
    assert "mean_slice" in stand_ins.before("week04 given 4")["zero"]
    assert "fsdp" not in stand_ins.before("week04 given 4")
    assert stand_ins.before("prerequisites.cube").keys() == set(GIVEN)
    assert "train" in stand_ins.before("project given 2")


@pytest.mark.parametrize(
    ("exercise", "is_used"),
    [("week14.ring", False), ("prerequisites.cube", False), ("week15.loop", True), ("project given 2", True)],
)
def test_submitted_modules_are_used_from_the_week_that_assembles_them(exercise, is_used):
    answer = {"cells": [[exercise, "from mine import zero", True]], "own": {"zero": "x = 1"}}
    assert ("own" in stand_ins.with_mine(answer, exercise)) == is_used


@pytest.mark.parametrize("week", sorted(weeks.WEEKS))
def test_no_exercise_finds_its_own_answer(week):
    for found in weeks.of_week(week):
        piece = piece_of(found.exercise)
        source = stand_ins.before(found.exercise).get(piece.module, "") if piece else ""
        assert f"# ---- {found.exercise} (" not in source
