"""Week 10: the claims of its page, the references of its checks, partial credit, and the facts behind its reading."""

import dataclasses
import inspect
import re
from itertools import product
from random import Random

import pytest
from shardlab.costs.layout import Layout
from shardlab.costs.machines import find_accelerator
from shardlab.costs.memory.stage import peak_memory
from shardlab.costs.memory.states import zero_state_bytes
from shardlab.costs.models.model import num_parameters
from shardlab.costs.models.zoo import find_model
from shardlab.costs.planning import claims, planner
from shardlab.costs.validation.published import read_runs

from autograder.weeks.week10_planning import _clusters, calculator, cut, fits, intra, sources
from autograder.weeks.week10_planning.reading import READING

H100 = find_accelerator("h100")


def test_one_of_the_four_first_layouts_fits():
    model = find_model("gpt-1t")
    tried = [(8, 4, 32), (8, 8, 16), (8, 16, 8), (8, 64, 2)]
    layouts = [
        Layout(tp=t, pp=p, dp=d, num_microbatches=2048 // d, zero=1, sequence_parallel=True) for t, p, d in tried
    ]
    fit = [peak_memory(model, one, gradient_bytes=4).total <= planner.usable_bytes(H100) for one in layouts]
    assert fit == [False, False, False, True]
    states = zero_state_bytes(num_parameters(model), 1, 0, gradient_bytes=4).total
    assert states / 2**40 == pytest.approx(17, abs=0.6) and 1024 * H100.memory_bytes == 80 * 2**40


def test_the_small_table_adds_up():
    def held(tp, pp, activations=4):
        stages_in_flight = min(pp, 2) / pp
        return 36 / (tp * pp), activations * stages_in_flight / tp

    assert [held(1, 1), held(1, 2), held(2, 1), held(2, 2)] == [(36, 4), (18, 4), (18, 2), (9, 2)]


def test_a_small_model_needs_no_pipeline_and_a_large_one_does():
    assert not claims.check_rules(find_model("llama2-7b"), H100, 64, 1024)[1].holds
    assert claims.check_rules(find_model("gpt3-175b"), H100, 1024, 1536)[1].holds


def test_llamas_layout_is_found_when_gradients_may_be_sharded():
    model = find_model("llama3-405b")
    run = next(run for run in read_runs() if run.id == "LLAMA3-405B-16384-cp1")
    wider = planner.plan(model, H100, 16384, 2048, search=planner.Search(zero_with_pipeline=2), best=10**6)
    assert run.layout in [one.layout for one in wider] and run.layout.zero == 2
    assert all(one.layout != run.layout for one in planner.plan(model, H100, 16384, 2048, best=10**6))


def test_references_agree_with_a_slow_way():
    case = {"num_gpus": 48, "per_server": 4, "num_layers": 36, "num_heads": 12, "sequences": 96}
    slow = [
        (tp, pp, dp, b)
        for tp, pp, dp, b in product(range(1, 49), range(1, 49), range(1, 49), (1, 3))
        if tp * pp * dp == 48 and 4 % tp == 0 and 12 % tp == 0 and 36 % pp == 0 and 96 % (dp * b) == 0
    ]
    assert sorted(_clusters.all_layouts(**case, microbatches=[1, 3])) == sorted(slow)
    model = {"parameters": 8.0, "layers": 4, "hidden": 2, "heads": 1, "sequence": 3}
    assert _clusters.rank_bytes(model, (2, 2, 1, 1), 5) == 2 * 18 + 2 * 2 * 34 * 3 * 2 / 2
    gpu = {"flops": 6.0, "nvlink": 2.0, "network": 3.0, "per_server": 8}
    work, tensor = 8 / 4 * 3, 4 * 4 / 2 * 12 / 2  # an all-reduce over 2 ranks sends the tensor once, 2 * 3 * 2 bytes
    assert _clusters.step_seconds(model, (2, 2, 1, 1), 5, gpu) == pytest.approx((5 + 1) * (work + tensor))
    assert _clusters.step_seconds(model, (2, 2, 8, 1), 40, gpu) == pytest.approx(
        6 * (work + tensor) + 6 * 2 * 7 / 8 / 2
    )
    slow = gpu | {"network": 0.25}  # four members on each of two servers: 1 byte per second together
    assert _clusters.step_seconds(model, (2, 2, 8, 1), 40, slow) == pytest.approx(6 * (work + tensor) + 6 * 2 * 7 / 8)
    assert fits.left(fits.CHECK.public[0]) == 80 * 2**30 - 70e9 / 8 * 7.5 - 20e9


def test_the_calculator_counts_llama_3_as_the_package_does():
    model = find_model("llama3-70b")
    assert calculator.calculated(calculator.PUBLIC)["parameters"] == num_parameters(model)
    assert sum(calculator.CHECK.parts.values()) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(3))
def test_drawn_limits_bind_and_can_be_met(seed):
    for case in cut.CHECK.draw(Random(seed)):
        task = cut.CHECK.make(case, Random(seed))
        assert 0 < task.expected[0] <= sum(layer[0] for layer in case["layers"])


def test_what_the_reading_questions_ask_is_so():
    megatron = pytest.importorskip("megatron.core.parallel_state")
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig

    source = inspect.getsource(megatron.initialize_model_parallel)
    assert "model_size = tensor_model_parallel_size * pipeline_model_parallel_size * context_parallel_size\n" in source
    assert "data_parallel_size: int = world_size // model_size\n" in source
    assert READING["replicas"] == 64 // (4 * 2 * 2)
    fields = [field.name for field in dataclasses.fields(DistributedDataParallelConfig)]
    assert [name for name in fields if re.match("grad.*fp32", name)] == [READING["fp32_gradients"]]
    assert f"max({READING['smallest_bucket']}, 1000000 * " in inspect.getsource(DistributedDataParallel.__init__)


@pytest.mark.parametrize(
    ("exercise", "name", "points", "right"),
    [
        ("week10.fitting", "keeps_what_does_not_fit", 2, "Right: rank_bytes."),
        ("week10.ranked", "slowest_first", 2, "Right: step_seconds."),
        ("week10.calculator", "two_byte_gradients", 0.82 * 3, "parameters"),
    ],
)
def test_half_of_an_answer_earns_its_part(judged, exercise, name, points, right):
    verdict = judged(exercise, name)
    assert verdict.points == pytest.approx(points, abs=0.01) and right in verdict.text


@pytest.mark.parametrize("seed", range(5))
def test_a_ladder_costs_what_brute_force_finds(seed):
    ladder = [(i, j) for j in range(5) for i in (j - 2, j - 1) if i >= 0]
    case = intra.drawn(Random(seed), 5, ladder, 3)
    assert intra.on_a_ladder(case) == intra.by_brute_force(case)


def test_the_diamond_by_hand_has_two_best_answers():
    prices = {choices: intra.price(intra.DIAMOND, choices) for choices in product(range(2), repeat=4)}
    assert prices[0, 1, 1, 0] == 20
    assert [choices for choices, paid in prices.items() if paid == min(prices.values()) == 8] == [(0,) * 4, (1,) * 4]


def test_the_sources_print_these_numbers():
    assert sources.stage_parameters(sources.GPT2_LARGE) == [210_753_280, 209_445_120]  # the log of Accelerate's guide
    reached = [sources.expected("mt-nlg", sizes)[0] / 1e12 for sizes in sources.PUBLIC["mt-nlg"]]
    assert reached == pytest.approx([126, 121, 113], abs=0.6)  # arXiv 2201.11990, section 2.4
    assert sources.expected("alpa-ray", sources.PUBLIC["alpa-ray"][0])[0] == pytest.approx(0.575, abs=0.002)
