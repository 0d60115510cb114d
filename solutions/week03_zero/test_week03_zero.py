"""Week 3: the numbers stated on its page, partial credit, and the facts behind its reading questions."""

import inspect
from random import Random

import pytest
import torch
from shardlab.costs.memory.states import shard_elements, zero_state_bytes

from autograder import traces
from autograder.checks import shards
from autograder.traces.places import OPTIMIZER, OWN_PART
from autograder.weeks.week03_zero import loss_scale, reading, smallest_stage


def held(num_ranks: int) -> list[float]:
    return [zero_state_bytes(1.0, num_ranks, stage).total for stage in range(4)]


def test_four_times_and_eight_times_are_limits():
    assert held(8) == [16, 5.5, 3.75, 2]
    assert [round(16 / one, 1) for one in held(8)[1:]] == [2.9, 4.3, 8.0]
    assert [16 / one for one in held(10**9)[1:3]] == pytest.approx([4, 8])
    assert [one * 100e6 / 1e9 for one in held(2)] == pytest.approx([1.6, 1.0, 0.9, 0.8])


@pytest.mark.parametrize(("num_ranks", "size", "padding"), [(2, 929, 1), (4, 465, 3)])
def test_1857_parameters_are_cut_as_the_page_says(num_ranks, size, padding):
    assert shard_elements(1857, num_ranks) == (size, padding)
    tensors = [torch.ones(32, 56), torch.ones(32), torch.ones(1, 32), torch.ones(1)]
    flat = shards.padded(tensors, num_ranks)
    assert flat.numel() == num_ranks * size and flat[-padding:].eq(0).all() and flat.sum() == 1857


def test_fp16_loses_what_the_page_says_and_a_scale_saves_it():
    assert torch.tensor(1e-8).half() == 0 and torch.tensor(1e-8).bfloat16() > 0
    assert (torch.tensor(1e-8) * 2**16).half().float().item() / 2**16 == pytest.approx(1e-8, rel=1e-2)
    assert torch.finfo(torch.float16).max == 65504 and torch.tensor(2.0**-24).half() > 0
    assert torch.tensor(2.0**-26).half() == 0
    usual = inspect.signature(torch.amp.GradScaler).parameters
    defaults = [usual[name].default for name in ("growth_factor", "backoff_factor", "growth_interval")]
    assert defaults == [2.0, 0.5, 2000]


def test_deepspeeds_tutorial_takes_the_stages_that_the_page_derives():
    assert [zero_state_bytes(1.5e9, 8, stage).optimizer for stage in (0, 1)] == [18e9, 2.25e9]
    assert zero_state_bytes(1.5e9, 8, 0).total == 24e9
    assert [zero_state_bytes(1e10, 32, stage).total for stage in (1, 2)] == [43.75e9, 24.375e9]
    assert [smallest_stage.smallest(case) for case in smallest_stage.CHECK.public] == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_loss_scaling_is_checked_with_one_slice_a_sum_and_no_overflow(seed):
    cases = loss_scale.CHECK.draw(Random(seed))
    assert {kind for case in cases for kind in case["steps"]} == {"good", "one", "sum", "nan"}
    for case in cases:
        history = loss_scale.CHECK.make(case, Random(seed)).facts["history"]
        assert [stepped for stepped, _ in history] == [kind == "good" for kind in case["steps"]]


def test_predictions_come_from_the_run_of_the_layout():
    page = reading.recorded(reading.PAGE)
    sums, gather = ["reduce_scatter_tensor", "all_reduce"], ["all_gather_into_tensor"]
    assert page == {"message": [640, 160], "parts": [48, 96], "calls": sums + gather}
    changed = reading.recorded(reading.PAGE | {"world": 3, "overlap": True})
    assert changed["calls"] == gather + sums and all(changed[key] != page[key] for key in page)


def test_the_slices_by_hand_on_the_page():
    """Two real ranks; the fake backend makes the same calls."""
    layout = traces.DistributedOptimizer(2, (8, 24, 10), 10_000, overlap=False)
    ranks = [traces.record(layout, rank, OPTIMIZER, real=True) for rank in range(2)]
    assert [[visit.values["shard_model_param"] for visit in one.visits(OWN_PART)] for one in ranks] == [
        [[240]],
        [[192]],
    ]
    assert ranks == [traces.record(layout, rank, OPTIMIZER) for rank in range(2)]


def test_half_of_the_cut_earns_half_of_the_points(judged):
    verdict = judged("week03.flatten", "no_padding")
    assert verdict.points == 1 and "1858 are expected" in verdict.text and "Right: unflatten." in verdict.text
