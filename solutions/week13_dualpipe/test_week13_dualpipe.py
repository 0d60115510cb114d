"""Week 13: the numbers on its page, and the references of its checks against the package's own orders."""

from random import Random
from types import ModuleType

import pytest
from shardlab.pipeline_parallel.builders import dualpipe, dualpipe_v, one_f_one_b, zbv
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import parse_schedule
from shardlab.pipeline_parallel.simulation import peak_activations, simulate

from autograder import weeks
from autograder.matrices import known
from autograder.matrices.kill_matrix import PREAMBLE
from autograder.weeks.week13_dualpipe import bill, eight_steps, one_copy, slots
from autograder.weeks.week13_dualpipe.reading import READING


def answer_of(folder: str, name: str) -> str:
    return known.find(f"week13.{folder.replace('_', '-')}", name).source


def printed(num_ranks: int, pair: float, backward: float, weight_gradient: float) -> float:
    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient)


@pytest.mark.parametrize("seed", range(5))
def test_the_bill_is_the_printed_formula_at_balance(seed):
    for case in bill.CHECK.draw(Random(seed)):
        idle, held = bill.CHECK.make(case, Random(0)).expected[0]
        weight = case["weight_gradient"]
        assert idle == pytest.approx(printed(case["num_ranks"], case["pair"], case["forward"] + weight, weight))
        assert held == case["num_ranks"] + 1


def test_away_from_balance_the_clock_says_less_and_the_first_pair_is_why():
    durations = Durations(1, 1.2, 0.8)
    assert simulate(dualpipe(8, 20)).idle == [6] * 8 and simulate(dualpipe(8, 20)).makespan == 66
    assert max(simulate(dualpipe(8, 20), durations).idle) == pytest.approx(7.2)
    assert printed(8, 1 + 1.2 + 0.8, 1.2 + 0.8, 0.8) == pytest.approx(7.8)
    module = ModuleType("paired")
    exec(answer_of("dualpipe", "right_overlaps_the_first_pair"), module.__dict__)
    assert max(simulate(parse_schedule(module.dualpipe(8, 20)), durations).idle) == pytest.approx(7.8)


def test_words_and_numbers_give_the_packages_order():
    streams = {"n": list(range(10)), "f": list(range(10, 20))}
    for rank in range(4):
        words = [word for step in eight_steps.steps_of(rank, 4, 10) for word in step]
        texts = slots.numbered(words, {"n": rank, "f": 7 - rank}, streams)
        assert texts == [str(slot) for slot in dualpipe(8, 20)[rank]]
        assert len(eight_steps.steps_of(3, 4, 10)[3]) // 2 == READING["main_steps"]


def test_the_counts_of_the_case_by_hand():
    steps = eight_steps.steps_of(1, 3, 6)
    words = (1, 2, 3, 2, 2, 2, 2, 1)
    assert [len(step) // size for step, size in zip(steps, words, strict=True)] == [2, 2, 1, 2, 1, 2, 1, 2]
    middle = eight_steps.steps_of(0, 1, 2)
    assert " | ".join(" ".join(step) for step in middle if step) == "Fn Ff | Fn Bf Ff&Bn | Bf In | W"


@pytest.mark.parametrize(("length", "num_microbatches"), [(2, 5), (4, 12), (5, 10)])
def test_each_count_follows_from_its_reason(length, num_microbatches):
    """Hops, the lead of near forwards in the steady state, and what is left, for every rank of a half pipeline."""
    for to_end in range(length):
        near, far = to_end, 2 * length - 1 - to_end
        steps = eight_steps.steps_of(to_end, length, num_microbatches)
        before_far = [word for step in steps for word in step].index("Ff")
        assert before_far == far - near  # one near forward per hop
        assert len(steps[1]) - 2 == 2 * (2 * length - 1 - far)  # to the last stage and back
        lead = {letter: _count(steps[:3], letter + "n") - _count(steps[:3], letter + "f") for letter in "FB"}
        assert lead == {"F": length - 1 - to_end, "B": to_end + 1 - length}
        for done, letters in ((4, "Fn"), (5, "Ff"), (6, "Bf"), (7, "Bn")):
            assert _count(steps[:done], letters) == num_microbatches


def _count(steps: list[list[str]], letters: str) -> int:
    """How often a word occurs, alone or in a pair; I counts as B."""
    return sum(part.replace("I", "B") == letters for step in steps for word in step for part in word.split("&"))


def changed(more_in_step_1: int, full_of_step_6: float | None = None) -> tuple[float, list[int]]:
    """Seconds of a step and activations of DualPipeV on 4 ranks with 12 microbatches and other counts."""
    module = ModuleType("changed")
    source = answer_of("eight_steps", "right_as_taught")
    source = source.replace('["Fn"] * (2 * to_middle)', f'["Fn"] * max(0, 2 * to_middle + {more_in_step_1})')
    if full_of_step_6 is not None:
        source = source.replace("half = len(ends) // 2", f"half = int(len(ends) * {full_of_step_6})")
    exec(source, module.__dict__)
    streams = {"n": list(range(12)), "f": list(range(12))}
    ranks = [slots.numbered(module.eight_steps(r, 4, 12), {"n": r, "f": 7 - r}, streams) for r in range(4)]
    schedule = parse_schedule(ranks)
    return simulate(schedule, Durations(1, 1, 1)).makespan, peak_activations(schedule)


def test_other_counts_cost_time_or_memory():
    assert changed(0) == (78, [9] * 4) and changed(1) == (78, [10] * 4)
    assert changed(-1)[0] == 125
    assert [changed(0, share)[0] for share in (0, 0.25, 0.75)] == [81, 79, 79]


def test_one_copy_hides_the_transfers_for_more_activations():
    schedule = one_copy.overlapped_1f1b(8, 20)
    assert simulate(schedule, one_copy.HIDDEN).makespan == 89
    assert simulate(one_f_one_b(8, 20), one_copy.HIDDEN).makespan == 108
    assert peak_activations(schedule) == [2 * (8 - rank) for rank in range(8)]


def test_what_the_second_copy_buys():
    halves = Durations(0.75, 0.75, 0.5, overlapped=1.5)
    assert simulate(dualpipe(8, 20), one_copy.HIDDEN).makespan == 76.5
    assert simulate(dualpipe_v(8, 20), halves).makespan == 77.25
    assert peak_activations(dualpipe_v(8, 20))[0] == 17
    slow, slower = (simulate(dualpipe(8, 20), Durations(1.5, 1.5, 1, overlapped=pair)).makespan for pair in (3.6, 3.7))
    assert slow < simulate(zbv(8, 20), halves).makespan < slower


@pytest.mark.parametrize(
    ("name", "right"),
    [("upside_down", "Right: DualPipe."), ("streams_not_mirrored", "Right: DualPipeV.")],
)
def test_partial_credit(judge, name, right):
    check = weeks.find("week13.dualpipe")
    answer = {"preamble": PREAMBLE, "cells": [[check.exercise, answer_of("dualpipe", name), True]]}
    verdict = judge.judge(check, answer, seed=3)
    assert verdict.points == 1 and right in verdict.text
