"""Week 6: the numbers stated on its page, reference answers compared with one process, and partial credit."""

import importlib
from dataclasses import replace
from random import Random

import pytest
import torch
from shardlab import meter
from shardlab.costs.models.flops import hardware_flops_per_token, model_flops_per_token, utilisation
from shardlab.costs.models.zoo import ZOO
from shardlab.model.modern import ModernBlock

from autograder import weeks
from autograder.authoring import notebooks
from autograder.traces import SequenceParallel, record
from autograder.traces.places import LINEAR
from autograder.weeks.week06_sequence_parallel import (
    _shared,
    activations,
    block,
    memory_cap,
    modern,
    norm,
    operators,
    reading,
)

five_thirty = importlib.import_module("autograder.weeks.week06_sequence_parallel.530b")
LAYER_OF_530B = weeks.find("week06.530b").make({}, Random(0)).expected[0]
CAPS = weeks.find("week06.memory-cap").public


def page() -> str:
    return "\n".join(cell.source for cell in notebooks.read_source("week06").cells)


def test_the_six_rows_by_hand():
    """One position, h = 16, a = 1, two ranks: s = 1, so the scores take 5 bytes."""
    assert activations.expected({"s": 1, "b": 1, "h": 16, "a": 1, "t": 2}) == [
        34 * 16 + 5,
        10 * 16 + 24 * 8 + 2.5,
        34 * 8 + 2.5,
        10 * 16 + 24 * 8,
        34 * 8,
        2 * 16,
    ]


def test_530b_keeps_and_costs_what_the_interview_says():
    tp, both, saved, again, full, _ = LAYER_OF_530B
    unit = 2048 * 20480
    assert (tp / unit, both / unit) == (21, 4.25)
    assert (round(tp / 1e6), round(both / 1e6), round(tp / both, 2)) == (881, 178, 4.94)
    assert (round(saved, 2), round(100 * again, 2), full) == (0.65, 0.55, 1 / 3)
    model = replace(ZOO["mt-nlg-530b"], layers=1, vocab=1)  # a head of one column
    once = model_flops_per_token(model)
    assert hardware_flops_per_token(model, "selective") / once == pytest.approx(1 + again, rel=1e-4)
    assert hardware_flops_per_token(model, "full") / once == pytest.approx(1 + full, rel=1e-4)


def test_printed_utilisations_do_not_follow_from_the_flops():
    again = LAYER_OF_530B[3]
    least = (57.0 - 0.05) / (56.0 + 0.05)  # both are rounded to a tenth
    assert 1 + again < least < 1 + 3 * again
    assert round(54.2 / 42.1, 3) == 1.287 and round(4 / 3 / (1 + again), 3) == 1.326
    s, h = 2048, 20480
    assert round((1 + s / (3 * h)) / (1 + s / (6 * h)), 3) == 1.016


def test_mt_nlgs_table_counts_the_second_forward():
    """Two of the three rows to the last digit, one within rounding of the seconds; three forwards give none."""
    rates = {gpus: five_thirty.teraflops_per_gpu(gpus, forwards=4) for gpus in five_thirty.SECONDS}
    assert LAYER_OF_530B[5] == rates[2240] and [round(rate) for rate in rates.values()] == [126, 120, 113]
    for gpus, rate in rates.items():
        assert rate == pytest.approx(five_thirty.PRINTED[gpus], rel=0.01)
        assert f"| {gpus:,} | {five_thirty.SECONDS[gpus]} | {five_thirty.PRINTED[gpus]} |" in page()
        assert five_thirty.teraflops_per_gpu(gpus, forwards=3) < 0.8 * five_thirty.PRINTED[gpus]


def test_table_5_of_the_papers_follows_from_its_seconds():
    flops = model_flops_per_token(ZOO["mt-nlg-530b"])
    shares = [utilisation(flops, 280 * 2048, seconds, 280, 312e12) for seconds in (49.05, 37.83)]
    assert [round(share, 3) for share in shares] == [0.432, 0.56]


@pytest.mark.parametrize("case", [modern.SMALL, {"s": 9, "b": 1, "h": 24, "a": 6, "k": 1, "d": 8, "f": 40}], ids=str)
def test_a_measured_layer_keeps_what_the_exercise_expects(case):
    """The meter on a real layer, as on the page: the sum to the byte, and as many tensors as the parts have."""
    layer, tables = ModernBlock(modern.model_of(case)).bfloat16(), torch.rand(2, case["s"], case["d"] // 2).bfloat16()
    with meter.saved([*layer.parameters(), tables]) as kept:
        layer(torch.randn(case["b"], case["s"], case["h"]).bfloat16().requires_grad_(), *tables)
    assert kept.num_bytes == sum(modern.expected(case))
    assert len(kept.tensors) == sum(map(len, modern.PARTS.values()))


def test_llamas_layer_by_hand():
    by_hand = {"s": 1, "b": 1, "h": 4, "a": 2, "k": 1, "d": 2, "f": 8}
    assert modern.expected(by_hand) == [24, 16, 32, 64]
    llama = replace(ZOO["llama3-8b"], sequence=8192)
    sizes = llama.hidden, llama.heads, llama.kv_heads, llama.head_dim or llama.hidden // llama.heads, llama.ffn
    assert sizes == tuple(modern.LLAMA[name] for name in "hakdf")


def test_the_problem_in_numbers_is_a_fifth():
    assert 105 * LAYER_OF_530B[0] > 80e9 and "A fifth of that is enough" in page()


def test_two_ranks_gather_and_scatter_the_numbers_of_the_page():
    part = {0: torch.tensor([[[1.0]]]), 1: torch.tensor([[[2.0]]])}
    gradient = {0: torch.tensor([[[10.0], [20.0]]]), 1: torch.tensor([[[30.0], [40.0]]])}
    expected = operators._expected(part, gradient, gradient, part)
    assert [expected[rank][0].flatten().tolist() for rank in (0, 1)] == [[1, 2], [1, 2]]
    assert [expected[rank][1].item() for rank in (0, 1)] == [40, 60]
    assert [expected[rank][2].item() for rank in (0, 1)] == [40, 60]
    assert expected[0][3].flatten().tolist() == [1, 2]


def test_what_each_rank_sees_of_a_norms_gradient_adds_up():
    """The block's reference answer: the sum over positions is the whole gradient, the sum over some of them is not."""
    torch.manual_seed(0)
    layer = [torch.ones(4), torch.zeros(4), torch.randn(4, 6), torch.randn(6, 4)]
    x, gradient = torch.randn(2, 6, 1, 4).double()
    layer = [weight.double() for weight in layer]
    of_all = block.one_process([layer], x, gradient)[2][0][0]
    parts = [block.one_process([layer], *pair)[2][0][0] for pair in zip(x.chunk(3), gradient.chunk(3), strict=True)]
    assert torch.allclose(sum(parts), of_all) and not torch.allclose(parts[0], of_all)


def test_finished_gradients_by_hand():
    """Two positions, two replicas: a norm's weight is summed over positions and averaged over replicas."""
    places = {(tp, dp): [torch.tensor([10.0 * tp + dp])] for tp in (0, 1) for dp in (0, 1)}
    sizes = {"tp": 2, "dp": 2}
    assert [norm._finished(places, 0, kind, 1, sizes).item() for kind in ("sequence", "split", "whole")] == [
        (0 + 1 + 10 + 11) / 2,
        (10 + 11) / 2,
        (10 + 11) / 2,
    ]


TEN = {"s": 1, "b": 1, "h": 8, "a": 1, "t": 1, "sequence_parallel": False}


def test_the_last_layer_is_recomputed_for_nothing():
    kept = _shared.kept_bytes(TEN)
    assert _shared.peak_bytes(TEN, ["none", "none", "full"]) == 3 * kept["none"]
    assert _shared.peak_bytes(TEN, ["full", "none", "none"]) == 2 * kept["none"] + kept["full"]


@pytest.mark.parametrize("case", [*CAPS, *memory_cap._draw(Random(5))], ids=str)
def test_the_least_flops_are_those_of_trying_every_plan(case):
    """With few layers. Any plan with the same number of each kind costs the same."""
    small = memory_cap.cap_for({**case, "num_layers": 5}, 1, 2, 0.25) if case["num_layers"] > 5 else case
    plans = [[]]
    for _ in range(small["num_layers"]):
        plans = [[*plan, way] for plan in plans for way in _shared.WAYS]
    fitting = [plan for plan in plans if _shared.peak_bytes(small, plan) <= small["cap_bytes"]]
    costs = [sum(_shared.extra_flops(small)[way] for way in plan) for plan in fitting]
    assert memory_cap.least_flops(small) == pytest.approx(min(costs)) if fitting else True
    assert (memory_cap.least_flops(small) is None) == (not fitting)


@pytest.mark.parametrize("seed", range(12))
def test_every_seed_draws_a_cap_under_which_a_full_layer_replaces_two(seed):
    def costs(case, only_selective):
        kept, again, others = _shared.kept_bytes(case), _shared.extra_flops(case), case["num_layers"] - 1
        found = [
            full * again["full"] + selective * again["selective"]
            for full in range(1 if only_selective else others + 1)
            for selective in range(others + 1 - full)
            if full * kept["full"] + selective * kept["selective"] + (others + 1 - full - selective) * kept["none"]
            <= case["cap_bytes"]
        ]
        return min(found, default=None)

    drawn = memory_cap._draw(Random(seed))
    assert any((less := costs(case, True)) and less > costs(case, False) for case in drawn)
    assert any(memory_cap.least_flops(case) is None for case in drawn)
    assert any(memory_cap.least_flops(case) == 0 for case in drawn)


def test_predictions_come_from_the_run_of_the_layout():
    page = reading.recorded(reading.PAGE)
    assert page["kept"] == [[4, 1, 6], [8, 1, 6]] and page["next"] == ["all_gather_into_tensor", [4, 1, 6]]
    changed = reading.recorded(reading.PAGE | {"whole_gradient": False, "s": 4})
    assert len(changed["calls"]) == len(page["calls"]) + 1 == 7 and all(changed[key] != page[key] for key in page)


def test_real_ranks_call_what_the_fake_backend_calls():
    layout = SequenceParallel(world=2, f=12, **reading.PAGE)
    assert [record(layout, rank, LINEAR, real=True) for rank in range(2)] == [
        record(layout, rank, LINEAR) for rank in (0, 1)
    ]


def test_a_recomputation_that_keeps_everything_earns_two_thirds(judged):
    verdict = judged("week06.recompute", "keeps_everything")
    assert verdict.points == 2 and "look at what the forward keeps" in verdict.text


def test_partial_norm_gradients_are_named(judged):
    verdict = judged("week06.block", "partial_norms")
    assert verdict.points == 0 and "Which ranks have the others?" in verdict.text


def test_a_norm_on_everything_is_right_and_splits_nothing(judged):
    verdict = judged("week06.block", "norm_on_everything")
    assert verdict.points == 2 and "look at what the first line of your layer works on" in verdict.text


def test_a_gradient_that_is_t_times_too_large_is_reported(judged):
    verdict = judged("week06.norm", "reduces_what_is_whole")
    assert verdict.points == 0 and "times what it should be" in verdict.text


def test_a_sequence_that_does_not_divide_must_be_refused(judged):
    verdict = judged("week06.operators", "drops_the_rest")
    assert verdict.points == 0 and "cannot be split over" in verdict.text and "raise a ValueError" in verdict.text
