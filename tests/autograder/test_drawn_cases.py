"""Every student gets the same kinds of cases with different numbers; pages show the public ones, and say so."""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from random import Random
from typing import Any

import pytest
from torch import Tensor

from autograder.authoring import notebooks
from autograder.checks.groups import members_of
from autograder.weeks import WEEKS

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
