"""The cases of checks: those on the page, and those drawn for a grade."""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from random import Random
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist
from shardlab import costs
from torch import Tensor

from autograder.authoring import notebooks
from autograder.checks.groups import members_of
from autograder.matrices import known
from autograder.weeks import WEEKS, find

# ---- Cases worked by hand, and cases that a student sees. ------------------------------------------------------------

# Weeks 5 to 10: an honest answer returns the result of the case worked by hand, and its numbers are on the page


SMALL_MODEL = {"parameters": 10**9, "layers": 4, "hidden": 1000, "heads": 8, "sequence": 1000}
SLOW_GPU = {"flops": 1e12, "nvlink": 1e9, "network": 1e8, "per_server": 2}
SHOWN = {"week07.gpipe": "right_loops"}  # several orders are right; this one is on the page
BY_HAND: dict[str, tuple[str, tuple[Any, ...], Any, str]] = {  # exercise: function, arguments, result, on the page
    "week05.bill": ("tensor_parallel_bill", (2, 1, 2, 4, 8), [64, 24, 16], "a layer has four all-reduces: 64."),
    "week05.why-eight": ("layer_seconds", (2, 1, 2, 100, 4, 1, 8), (1.56, 4), "On two ranks it is 1.56 s"),
    "week06.activations": ("activation_bytes", (2, 1, 4, 2, 2), [312, 196, 156, 176, 136, 16], "8·(10 + 24/2 + 5/2)"),
    "week07.bubble": ("bubble_and_speedup", (2, 2), (1 / 3, 1 / 2, 4 / 3), "3 units | 2 | 1/3 | 1/2 | 4 units | 4/3"),
    "week07.split-stages": ("split_stages", ([3, 1, 1, 1], 2), [1, 3], "`[1, 3]` makes 3 and 3."),
    "week07.gpipe": (
        "gpipe",
        (2, 2),
        [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1F1", "1B0", "1B1"]],
        '`["0F0", "0F1", "0B0", "0B1"]`',
    ),
    "week07.one-f-one-b": (
        "one_f_one_b",
        (2, 3),
        [["0F0", "0F1", "0B0", "0F2", "0B1", "0B2"], ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]],
        "| `0F0` | `0F1 0B0 0F2 0B1` | `0B2` | 2 |",
    ),
    "week07.capped": (
        "capped",
        (2, 2, 1),
        [["0F0", "0B0", "0F1", "0B1"], ["1F0", "1B0", "1F1", "1B1"]],
        "`0F0 0B0 0F1 0B1` on rank 0",
    ),
    "week07.smallest": ("smallest_num_microbatches", (2, 50), 2, "below 50% needs M = 2"),
    "week08.bubbles": ("bubbles", (2, 1, 1, 1), (3, 1), "It idles for 1 unit."),
    "week08.interleaved": (
        "interleaved",
        (2, 2, 2),
        [
            ["0F0", "0F1", "2F0", "2F1", "2B0", "2B1", "0B0", "0B1"],
            ["1F0", "1F1", "3F0", "3B0", "3F1", "3B1", "1B0", "1B1"],
        ],
        "2 + 0 = 2: `1F0 1F1` | `3F0 3B0 3F1 3B1` | `1B0 1B1` |",
    ),
    "week08.held": ("held_bytes", (2, 1, 5, 3), (5, 8), "the 3 bytes that W0 needs: 5 + 3 = 8."),
    "week08.zb-h1": (
        "zb_h1",
        (2, 2),
        [["0F0", "0F1", "0I0", "0W0", "0I1", "0W1"], ["1F0", "1I0", "1F1", "1I1", "1W0", "1W1"]],
        "`1F0 1I0 1F1 1I1 1W0 1W1`",
    ),
    "week08.wins": ("one_f_one_b_wins_from", (2, 1, 0.5), 4, "so the answer is 4."),
    "week09.groups": ("groups", (["dp"], {"tp": 2, "dp": 2}), [[0, 2], [1, 3]], '`["dp"]` are `[[0, 2], [1, 3]]`'),
    "week09.axis-bytes": ("axis_bytes", (2, 4, 2, 1, 100, 2, 2, 2), [16, 16, 32, 16, 200], "200 bytes of gradients"),
    "week10.fits": ("bytes_left", (10**9, 2, 2, 2, 1e9, 8e9), 4e9, "0.25 · 12 = 3 GB"),
    "week10.layouts": (
        "layouts",
        (4, 2, 2, 2, 4, [1, 2]),
        [(1, 1, 4, 1), (1, 2, 2, 1), (1, 2, 2, 2), (2, 1, 2, 1), (2, 1, 2, 2), (2, 2, 1, 1), (2, 2, 1, 2)],
        "`(2, 2, 1, 1)`, `(2, 2, 1, 2)`: seven.",
    ),
    "week10.fitting": ("rank_bytes", (SMALL_MODEL, (2, 2, 2, 1), 4), 3.068e9, "The total is 3.068 GB."),
    "week10.ranked": ("step_seconds", (SMALL_MODEL, (2, 2, 2, 1), 4, SLOW_GPU), 12.048, "The total is 12.048 s."),
    "week10.cut": ("cut", ([(3, 10, 1), (1, 10, 1), (1, 10, 1)], 2, 2, 22), [1, 2], "With a limit of 22 or more"),
    "week10.trillion": ("used_and_days", (10**9, 10**6, 10, 10, 1e14, 8.64e9), (0.6, 1), "could do in that time: 0.6."),
}


def answered(exercise: str) -> ModuleType:
    """Run an honest answer, with the names that its page imports."""
    module = ModuleType(exercise)
    module.__dict__.update(torch=torch, dist=dist)
    answer = known.find(exercise, SHOWN[exercise]) if exercise in SHOWN else known.right_of(exercise)
    exec(answer.source, module.__dict__)
    return module


@pytest.mark.parametrize("exercise", BY_HAND)
def test_a_case_worked_by_hand_is_what_an_answer_returns(exercise):
    function, arguments, result, words = BY_HAND[exercise]
    returned = getattr(answered(exercise), function)(*arguments)
    assert (
        flat(returned) == pytest.approx(flat(result)) if is_number(flat(result)[0]) else flat(returned) == flat(result)
    )
    text = " ".join("\n".join(cell.source for cell in notebooks.read_source(exercise.split(".")[0]).cells).split())
    assert words in text.replace("# ", ""), f"the page does not say: {words}"


def test_two_layers_by_hand():
    """Week 8's table of I and W."""
    answer = answered("week08.split-backward")
    weights, inputs = (
        [torch.tensor([[2.0, -1]]), torch.tensor([[3.0], [4]])],
        [torch.ones(1, 1), torch.tensor([[2.0, 0]])],
    )
    gradient, arrived = answer.input_gradient(weights, inputs, torch.ones(1, 1))
    assert (gradient.tolist(), arrived[0].tolist()) == ([[6]], [[3, 0]])
    assert [one.tolist() for one in answer.weight_gradients(inputs, arrived)] == [[[3, 0]], [[2], [0]]]


def flat(value: Any) -> list[Any]:
    """Flatten nested lists and tuples to their numbers and texts, in order; those of layouts are sorted."""
    if not isinstance(value, list | tuple):
        return [value]
    inner = sorted(value) if value and isinstance(value[0], tuple) and isinstance(value, list) else value
    return [leaf for one in inner for leaf in flat(one)]


def is_number(value: Any) -> bool:
    """Return whether a value may differ by rounding."""
    return isinstance(value, int | float)


# Weeks 5 to 13: a check's page shows exactly its public cases, and the grade draws cases of every kind


LATER_WEEKS = [week for week in WEEKS if week >= "week05"]
SEEDS = range(12)


def cases_on_the_page(week: str) -> dict[str, list | None]:
    """The cases passed to each check on a week's page; None: its public ones."""
    shown: dict[str, list | None] = {}

    def check(exercise, *answers, cases=None):
        shown[exercise] = cases

    names = {name: None for one in WEEKS[week] for name in one.names}
    scope = {"check": check, "costs": costs, **names}
    for cell in notebooks.read_source(week).cells:
        if cell.cell_type == "code" and "check(" in cell.source and "import" not in cell.source:
            exec(cell.source, scope)
    return shown


@pytest.mark.parametrize("week", LATER_WEEKS)
def test_a_page_shows_the_public_cases(week):
    shown = cases_on_the_page(week)
    assert sorted(shown) == sorted(check.exercise for check in WEEKS[week])
    for check in WEEKS[week]:
        cases = shown[check.exercise]
        assert cases is None or sorted(map(str, map(sorted_items, cases))) == sorted(
            map(str, map(sorted_items, check.public))
        ), check.exercise


def sorted_items(case: dict) -> list:
    return sorted(case.items())


@pytest.mark.parametrize("week", LATER_WEEKS)
def test_each_page_says_once_what_the_grade_varies(week):
    text = "\n".join(cell.source for cell in notebooks.read_source(week).cells if cell.cell_type == "markdown")
    assert text.count("**What the grade varies.**") == 1


def drawn(exercise: str, *names: str) -> list[set]:
    """For each seed, the kinds of cases judged, public or drawn: the values of some entries of a case."""
    check = find(exercise)
    return [{tuple(case[name] for name in names) for case in (*check.public, *check.draw(Random(s)))} for s in SEEDS]


@pytest.mark.parametrize("exercise", ["week07.gpipe", "week07.one-f-one-b", "week08.zb-h1"])
def test_every_remainder_of_microbatches_by_ranks_is_always_there(exercise):
    for sizes in drawn(exercise, "num_ranks", "num_microbatches"):
        assert {(p, m) for p in range(1, 6) for m in range(1, 2 * p + 2)} <= sizes


def test_a_v_schedule_always_meets_every_number_of_microbatches():
    for kinds in drawn("week08.v-schedule", "part", "num_ranks", "num_microbatches"):
        due = {(part, p, m) for part in ("ZBV", "half") for p in (2, 3, 4) for m in range(2 * p, 4 * p + 1)}
        assert due <= kinds


@pytest.mark.parametrize(
    "exercise", ["week07.neighbours", "week07.pipeline-step", "week08.hooks", "week13.copies", "week13.neighbours"]
)
def test_a_part_of_the_world_is_always_there(exercise):
    check = find(exercise)
    for seed in SEEDS:
        groups = [case["subgroup"] for case in (*check.public, *check.draw(Random(seed))) if "subgroup" in case]
        assert groups and all(sorted(group) == group for group in groups)


@pytest.mark.parametrize("exercise", ["week09.hybrid-step", "week09.same-order", "week09.whole-norm"])
def test_meshes_do_not_depend_on_the_seed(exercise):
    kinds = [sorted(str(list(case["sizes"].items())) for case in find(exercise).draw(Random(seed))) for seed in SEEDS]
    assert all(one == kinds[0] for one in kinds)


def test_layouts_to_filter_never_come_sorted():
    check = find("week10.fitting")
    for seed in SEEDS:
        rng = Random(seed)
        for case in (*check.public, *check.draw(rng)):
            if case["part"] == "fitting" and case["limit_bytes"] > 1:
                fit = check.make(case, rng).expected[0]
                assert len(fit) > 2 and fit != sorted(fit) and fit != sorted(fit, reverse=True)


def test_one_crossing_is_a_tie_and_one_lies_below_the_ranks():
    for cases in drawn("week08.wins", "num_ranks", "weight_gradient", "extra"):
        crossings = [((p - 1) * (2 * w - e) / e, p) for p, w, e in cases]
        assert any(crossing == int(crossing) >= p for crossing, p in crossings)
        assert any(crossing < p - 1 for crossing, p in crossings)


# ---- Every student gets the same kinds of cases with different numbers; pages show the public ones, and say so. ------

WEEKS_HERE = ("week00", "week01", "week02", "week03", "week04")
CHECKS = [check for week in WEEKS_HERE for check in WEEKS[week]]
ALONE = [check for check in chain.from_iterable(WEEKS.values()) if not any("ranks" in case for case in check.public)]
COMPARED_EXACTLY = {"week03.flatten", "week08.split-backward"}  # without a tolerance, so zeros are harmless
ROUNDING = 1e-12  # smaller values count as rounded zeros
KINDS = ("ranks", "ranks_per_node", "subgroup", "dtype", "part", "matrix", "missing", "empty", "zero", "zeros", "uses")
SOURCES = {name.split("_")[0]: notebooks.source_path(name).read_text() for name in notebooks.weeks()}
CUT_IN_SLICES = {  # exercises in which it matters whether the group's size divides the numbers
    "week01.ring-reduce-scatter",
    "week01.ring-all-reduce",
    "week01.hierarchical-all-reduce",
    "week03.zero1",
}


def kinds(check, seed):
    """Describe the cases of a seed without their numbers."""
    return [_kind(check.exercise, case) for case in check.draw(Random(seed))]


def _kind(exercise, case):
    is_cut = exercise in CUT_IN_SLICES and "empty" not in case
    rest = case["numbers"] % len(members_of(case)) if is_cut else None
    return sorted(case), {name: case[name] for name in KINDS if name in case}, rest


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.exercise)
def test_every_seed_draws_the_same_kinds(check):
    assert all(kinds(check, seed) == kinds(check, 0) for seed in range(1, 40))


@pytest.mark.parametrize("check", [check for check in CHECKS if check.program == "on_rank"], ids=lambda c: c.exercise)
def test_a_group_that_is_a_part_of_the_world_is_in_sight(check):
    is_part = any(len(members_of(case)) < case["ranks"] for case in check.public)
    assert is_part or check.exercise == "week01.hierarchical-all-reduce"  # its groups are always parts of the world


@pytest.mark.slow
@pytest.mark.parametrize("check", ALONE, ids=lambda check: check.exercise)
def test_what_is_expected_is_not_zero_by_luck(check):
    """A tolerance is relative to the largest number: if all are 0 except for rounding, it refuses right answers."""
    zeros = defaultdict(list)  # of one tensor of one case, for each seed
    for seed in range(3 if check.trains else 100):  # trained checks are slow
        rng = Random(seed)
        for place, case in enumerate([*check.public, *check.draw(rng)]):
            for number, tensor in enumerate(floats_in(check.make(case, rng).expected)):
                zeros[place, number].append(bool(tensor.abs().max() < ROUNDING))
    by_luck = {place: sum(found) for place, found in zeros.items() if len(set(found)) == 2}
    assert not by_luck or check.exercise in COMPARED_EXACTLY


def floats_in(expected: Any) -> Iterator[Tensor]:
    """Yield the nonempty tensors of floats, wherever they are nested."""
    if isinstance(expected, dict):
        expected = list(expected.values())
    if isinstance(expected, list | tuple):
        for one in expected:
            yield from floats_in(one)
    elif isinstance(expected, Tensor) and expected.is_floating_point() and expected.numel():
        yield expected


@pytest.mark.parametrize("week", WEEKS_HERE)
def test_the_page_says_once_what_fresh_cases_vary(week):
    assert SOURCES[week].count("**Fresh cases.**") == 1
    assert len(re.findall(r"fresh cases", SOURCES[week], re.IGNORECASE)) == 1


@pytest.mark.parametrize("exercise", ["week03.zero2", "week03.tied", "week02.ddp-backward"])
def test_a_second_step_on_the_same_model_is_in_sight(exercise):
    check = next(check for check in CHECKS if check.exercise == exercise)
    assert any(case.get("calls") == 2 for case in check.public)


HALF = """
import torch
import torch.distributed as dist


def total_of(tensor, *, group):
    total = tensor.half().float()
    dist.all_reduce(total, group=group)
    return total
"""


def test_a_rank_may_compute_in_float16(judge):
    """torch queries the processor's features once; a rank in a sandbox may be unable to read them."""
    check = WEEKS["week00"][0]
    verdict = judge.judge(check, {"preamble": "", "cells": [[check.exercise, HALF, True]]}, 0, check.public[:1])
    assert verdict.is_right, verdict.text
