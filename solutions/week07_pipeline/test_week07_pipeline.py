"""Week 7: the checks' reference solutions, partial credit, and what Megatron's schedule sends."""

import math
from fractions import Fraction
from random import Random
from types import ModuleType

import pytest
import shardlab
import torch
from shardlab.own.blocks import Block, module_source
from shardlab.own.pieces import piece_of
from shardlab.pipeline_parallel import builders
from shardlab.pipeline_parallel.bounds import least_makespan
from shardlab.pipeline_parallel.schedule import num_stages, parse_schedule
from shardlab.pipeline_parallel.simulation import peak_activations, simulate

from autograder import weeks
from autograder.authoring import notebooks
from autograder.matrices import known
from autograder.matrices.kill_matrix import PREAMBLE
from autograder.reading.own import block_of
from autograder.traces import Pipeline, record
from autograder.traces.places import BACKWARD, COOLDOWN, ONE_F_ONE_B, STEADY
from autograder.weeks.week07_pipeline import bubble, pipeline_step, reading, smallest, split_stages


def answer_of(folder: str, name: str) -> str:
    return known.find(f"week07.{folder.replace('_', '-')}", name).source


def function_of(folder: str, name: str, function: str):
    module = ModuleType(name)
    exec(answer_of(folder, name), module.__dict__)
    return getattr(module, function)


@pytest.mark.parametrize("name", ["right_clock", "right_tick_by_tick", "right_events"])
def test_a_free_rank_that_prefers_backwards_meets_the_bound(name):
    capped = function_of("capped", name, "capped")
    for ranks, microbatches, cap in [(1, 4, 1), (3, 4, 2), (4, 8, 2), (4, 8, 3), (6, 17, 4), (8, 24, 5), (5, 7, 9)]:
        schedule = parse_schedule(capped(ranks, microbatches, cap))
        assert simulate(schedule).makespan == least_makespan(ranks, microbatches, cap)
        assert max(peak_activations(schedule)) <= cap


def test_the_least_slowest_stage_is_that_of_every_way_to_cut():
    every_cut = function_of("split_stages", "right_every_cut", "split_stages")
    for case in (case for seed in range(5) for case in split_stages.CHECK.draw(Random(seed))):
        sizes = every_cut(case["seconds"], case["num_stages"])
        begins = [sum(sizes[:stage]) for stage in range(len(sizes))]
        slowest = max(sum(case["seconds"][b : b + size]) for b, size in zip(begins, sizes, strict=True))
        assert slowest == split_stages.slowest_stage(case["seconds"], case["num_stages"])


def test_eight_stages_need_64_microbatches_for_less_than_ten_per_cent():
    assert smallest.smallest(8, 10) == 64
    assert smallest.smallest(1, 5) == 1


@pytest.mark.parametrize("replicas", [1, 2, 4, 8, 16])
def test_the_bubble_over_the_work_is_the_formula_of_the_paper(replicas):
    case = {"num_ranks": 32 // replicas, "num_microbatches": 128 // replicas}
    _, share, _ = bubble.CHECK.make(case, Random(0)).expected[0]
    assert share == pytest.approx((32 - replicas) / 128)
    timeline = simulate(builders.one_f_one_b(*case.values()))
    assert share == pytest.approx(timeline.idle[0] / timeline.busy[0])


def test_one_process_is_the_mean_over_all_rows():
    weights, rows = [torch.eye(2, dtype=torch.float64)] * 2, torch.ones(3, 2, dtype=torch.float64)
    loss, gradients = pipeline_step.one_process(weights, rows, torch.zeros_like(rows))
    assert loss.item() == pytest.approx(torch.tanh(torch.tanh(torch.tensor(1.0, dtype=torch.float64))).item() ** 2)
    assert [gradient.shape for gradient in gradients] == [(2, 2), (2, 2)]


def block() -> Block:
    """The block that week07.pipeline-step adds to mine/pipeline.py."""
    page = notebooks.read_source("week07")
    piece = piece_of("week07.pipeline-step")
    assert piece is not None
    return block_of(piece, [cell.source for cell in page.cells if cell.cell_type == "code"])


def every_list_run(source, lists, like):
    """Losses and gradients of every list, run by this source's `run_slots`; stage s multiplies its input by 1 + s."""
    space = {}
    exec(source, space)
    found = []
    for texts, count in lists:
        weights = [torch.full((), 1.0 + stage, requires_grad=True) for stage in range(count)]

        def forward(stage, m, x, weights=weights, last=count - 1):
            y = weights[stage] * (like[m] if stage == 0 else x)
            return y.sum() if stage == last else y

        losses = space["run_slots"](texts, forward, lambda stage: [weights[stage]], like, group=None)  # noqa: B023
        found.append((sum(losses.values()), [one.grad for one in weights]))
    return found


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_the_trainer_gets_runs_every_schedule_of_the_course(ranks):
    """Including several stages per rank, I and W, overlapped pairs, and one rank; a product has known gradients."""
    names = [name for name in builders.BUILDERS if name != "dualpipe"]  # excluded because two ranks hold each stage
    made = [builders.BUILDERS[name](ranks, 4) for name in names]
    lists = [([[str(slot) for slot in slots] for slots in one], num_stages(one)) for one in made]
    like = [torch.arange(3.0) + m for m in range(4)]
    whole = sum(float(one.sum()) for one in like)
    source = module_source("pipeline", {"week07.pipeline-step": block()})
    for number, by_list in enumerate(zip(*shardlab.run(every_list_run, source, lists, like, ranks=ranks), strict=True)):
        product = math.factorial(lists[number][1])
        assert sum(loss for loss, _ in by_list) == product * whole, names[number]
        for stage, gradients in enumerate(zip(*(found for _, found in by_list), strict=True)):
            assert [one.item() for one in gradients if one is not None] == [product / (1 + stage) * whole], names[
                number
            ]


def test_a_list_that_is_not_followed_is_seen_from_outside(judged):
    assert "do not follow the list" in judged("week07.pipeline-step", "own_order").text


@pytest.mark.parametrize(
    ("exercise", "name", "points", "right"),
    [
        ("pipeline-step", "mean_of_means", 2, "Right: equal microbatches."),
        ("one-f-one-b", "forgets_few_microbatches", 2, "Right: as many microbatches as ranks."),
    ],
)
def test_partial_credit(judged, exercise, name, points, right):
    verdict = judged(f"week07.{exercise}", name)
    assert verdict.points == pytest.approx(points, abs=1e-3) and right in verdict.text


def test_predictions_come_from_the_run_of_the_layout():
    page = reading.recorded(reading.PAGE)
    assert page == {"ranks": [1, 3, 5, 7], "before": 5, "next": [["isend", 7], ["irecv", 7]]}
    changed = reading.recorded(reading.PAGE | {"pp": 8, "microbatches": 9})
    assert all(changed[key] != page[key] for key in page)


def test_the_messages_by_hand_on_the_page():
    """Two real ranks and two microbatches; one rank of many on the fake backend sends the same."""
    layout = Pipeline(world=2, tp=1, pp=2, chunks=1, microbatches=2, s=3, b=1, h=8)
    first, last = (record(layout, rank, ONE_F_ONE_B, real=True) for rank in range(2))
    assert len(first.before(BACKWARD, COOLDOWN)) == 3
    assert [(call.name, call.peer) for call in last.next_batch(STEADY)] == [("isend", 0), ("irecv", 0)]
    assert first == record(layout, 0, ONE_F_ONE_B) and last == record(layout, 1, ONE_F_ONE_B)


READS_THE_FILE = """
import os
import shardlab


def gpipe(num_ranks, num_microbatches):
    folder = os.path.join(os.path.dirname(shardlab.__file__), "pipeline_parallel")
    return open(os.path.join(folder, "builders", "one_f_one_b.py" if "check.py" in os.listdir(folder) else "")).read()
"""


@pytest.mark.isolated
def test_of_a_package_that_a_check_hides_no_file_is_left(judge):
    answer = {"preamble": PREAMBLE, "cells": [["week07.gpipe", READS_THE_FILE, True]]}
    assert "FileNotFoundError" in judge.judge(weeks.find("week07.gpipe"), answer, seed=3).text


def test_numbers_in_the_text_are_those_of_the_functions():
    text = " ".join(line.removeprefix("# ") for line in notebooks.source_path("week07").read_text().splitlines())
    for build in (builders.gpipe, builders.one_f_one_b):
        timeline = simulate(build(4, 8))
        assert f"{Fraction(timeline.bubble).limit_denominator(99)}" == "3/11" and "(P−1)/(M+P−1) = 3/11" in text
        assert ", ".join(map(str, peak_activations(build(4, 8)))) in text
    short = parse_schedule(function_of("capped", "short_warm_up", "capped")(4, 8, 2))
    assert f"{least_makespan(4, 8, 2):g} units instead of {least_makespan(4, 8, 4):g}" in text
    assert f"obeys the cap, but takes {simulate(short).makespan:g}" in text
    eight = simulate(builders.gpipe(8, 32)).bubble
    assert f"where your formula says {eight:.0%}" in text and 8 * (1 - eight) == pytest.approx(6.56, abs=0.01)
    busy = 1 - simulate(builders.gpipe(2, 4)).bubble
    assert f"used at M/(M+P−1) = {busy:.0%}, and the step is {2 * busy:g} times" in text
