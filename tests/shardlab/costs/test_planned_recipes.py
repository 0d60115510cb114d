"""Plain recipes and their variants in frameworks and papers: bytes per parameter, reductions, recomputed norms."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from shardlab.costs.axis_traffic import gradient_bytes
from shardlab.costs.clock.parts import data_seconds, gradient_rounds
from shardlab.costs.clock.setup import Setup
from shardlab.costs.failures import long_run
from shardlab.costs.hardware import ACCELERATORS, GIB, with_network
from shardlab.costs.layout import Layout, check_layout
from shardlab.costs.memory.stage import in_flight_layers, layer_activation_bytes, peak_memory
from shardlab.costs.memory.states import held_parameters, state_bytes, zero_state_bytes
from shardlab.costs.models.zoo import ZOO
from shardlab.costs.planning.planner import memory_of, seconds_of, usable_bytes
from shardlab.costs.uncertainty import step_interval, trained_here_residuals

from tests.shardlab.costs.recipes import RECIPES, bytes_per_parameter


def test_whole_parameters_cost_sixteen_eighteen_or_twenty():
    assert {name: recipe.total for name, recipe in RECIPES.items()} == {
        "mixed": 16,
        "bf16-fp32-gradients": 18,
        "fp16-megatron": 20,
        "fp32": 16,
        "deepseek-v3": 14,
    }
    assert all(bytes_per_parameter(name, 64, stage=0) == recipe.total for name, recipe in RECIPES.items())


@pytest.mark.parametrize("d", [1, 2, 8, 64])
def test_megatron_s_table_of_its_distributed_optimizer(d):
    assert bytes_per_parameter("bf16-fp32-gradients", d) == 6 + 12 / d
    assert bytes_per_parameter("fp16-megatron", d) == 4 + 16 / d
    assert bytes_per_parameter("fp32", d) == 8 + 8 / d


@pytest.mark.parametrize("stage", range(4))
def test_the_stages_are_the_paper_s(stage):
    assert bytes_per_parameter("mixed", 8, stage) == zero_state_bytes(1, 8, stage).total
    due = zero_state_bytes(1, 8, stage, gradient_bytes=4).total
    assert bytes_per_parameter("bf16-fp32-gradients", 8, stage) == pytest.approx(due)


@pytest.mark.parametrize("wrong", [{"recipe": "int4"}, {"stage": 4}, {"num_ranks": 0}])
def test_what_there_is_not_gets_a_sentence(wrong):
    with pytest.raises(ValueError, match="use mixed, bf16-fp32-gradients"):
        bytes_per_parameter(**({"recipe": "mixed"} | wrong))


ROOT = Path(__file__).parents[3]
H100, H800 = ACCELERATORS["h100"], ACCELERATORS["h800"]
LLAMA, DEEPSEEK = ZOO["llama3-405b"], ZOO["deepseek-v3"]
THEIRS = Layout(  # arXiv 2412.19437, section 3.2: 2,048 H800, no tensor parallelism, DualPipe
    pp=16, dp=128, ep=64, num_microbatches=120, zero=1, recompute="norms", schedule="dualpipe"
)


def test_plain_data_parallelism_gathers_what_it_has_reduced():
    model, plain = ZOO["llama2-7b"], Layout(dp=8, overlap=False)
    fp32, bf16 = (gradient_bytes(model, plain, bytes_each=size) for size in (4, 2))
    assert fp32 == 2 * bf16
    cut = replace(plain, zero=1)
    assert gradient_bytes(model, cut, bytes_each=4) == pytest.approx(1.5 * bf16)  # 4 bytes sent and 2 received back
    setup = Setup(H100, gradient_bytes=4)
    seconds = [data_seconds(model, layout, setup, 0.0) for layout in (plain, cut)]
    assert seconds[0] / seconds[1] == pytest.approx(4 / 3, rel=0.01)


def test_zero_2_in_a_pipeline_reduces_once_a_round():
    chunks = Layout(tp=8, pp=16, dp=8, virtual=7, num_microbatches=64, zero=2)
    assert gradient_rounds(chunks) == 4 and gradient_rounds(replace(chunks, virtual=1)) == 64
    assert gradient_rounds(replace(chunks, zero=1)) == 1
    held = held_parameters(LLAMA, chunks).total
    gradients = state_bytes(LLAMA, chunks, gradient_bytes=4).gradients
    assert gradients == pytest.approx(4 * held * (1 / 8 + 1 / 7))
    setup = Setup(H100, gradient_bytes=4)
    once, every = (data_seconds(LLAMA, replace(chunks, zero=zero, virtual=1), setup, 0.0) for zero in (1, 2))
    assert every > 20 * once


def test_the_run_of_deepseek_v3_fits_and_takes_about_what_was_reported():
    """180,000 H800-hours per trillion tokens (arXiv 2412.19437, section 1), 15,360 sequences of 4,096 per step."""
    reported = 180e3 * 3600 / 2048 / (1e12 / (15360 * 4096))
    assert memory_of(DEEPSEEK, THEIRS, fp8=True).total <= usable_bytes(H800)
    assert seconds_of(DEEPSEEK, THEIRS, H800, fp8=True).total == pytest.approx(reported, rel=0.15)
    without = replace(THEIRS, schedule="1f1b")
    assert seconds_of(DEEPSEEK, without, H800, fp8=True).total == pytest.approx(5 / 3 * reported, rel=0.05)
    assert memory_of(DEEPSEEK, replace(THEIRS, recompute="none"), fp8=True).total > usable_bytes(H800)


@pytest.mark.parametrize("name", ["llama3-70b", "mixtral-8x7b", "deepseek-v3"])
def test_norms_done_again_lie_between_nothing_and_everything(name):
    model, layout = ZOO[name], Layout(dp=8, num_microbatches=8, zero=1)
    kinds = [replace(layout, recompute=recompute) for recompute in ("none", "norms", "full")]
    kept = [layer_activation_bytes(model, one, moe=model.experts > 0) for one in kinds]
    seconds = [seconds_of(model, one, H100).total for one in kinds]
    assert kept[0] > kept[1] > kept[2] and seconds[0] < seconds[1] < seconds[2]
    assert seconds[1] - seconds[0] < 0.3 * (seconds[2] - seconds[0])


def test_k_of_n_layers_are_in_proportion():
    model, layout = ZOO["llama3-70b"], Layout(tp=8, pp=4, num_microbatches=8, recompute="full", sequence_parallel=True)
    none, full = (replace(layout, recompute="none"), layout)
    half = replace(layout, recomputed=(10, 20))
    for of in (lambda one: layer_activation_bytes(model, one), lambda one: seconds_of(model, one, H100).compute):
        assert of(half) == pytest.approx((of(none) + of(full)) / 2, rel=0.02)
    assert seconds_of(model, half, H100).tensor == pytest.approx(5 / 6 * seconds_of(model, full, H100).tensor)
    for wrong in ({"recomputed": (0, 4)}, {"recomputed": (5, 4)}, {"recomputed": (1, 4), "recompute": "none"}):
        with pytest.raises(ValueError, match="use \\(k, n\\), k of n layers"):
            replace(layout, **wrong)


def test_dualpipe_holds_two_copies_and_zbv_one():
    plain = replace(THEIRS, schedule="1f1b")
    for stage in range(16):
        two = held_parameters(DEEPSEEK, THEIRS, stage).total
        halves = [held_parameters(DEEPSEEK, plain, one).total for one in (stage, 15 - stage)]
        assert two == pytest.approx(sum(halves))
    v = replace(THEIRS, schedule="zbv")
    ends = [held_parameters(DEEPSEEK, one, 0).dense - held_parameters(DEEPSEEK, one, 8).dense for one in (plain, v)]
    assert ends[1] > ends[0]  # the embedding and the output layer
    layers = [in_flight_layers(DEEPSEEK, one) / 4 for one in (plain, v, THEIRS)]
    assert layers == [16, 16, 17]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"pp": 1, "schedule": "zbv"}, "needs a pipeline"),
        ({"pp": 4, "num_microbatches": 7, "schedule": "zbv"}, "use 8 or more"),
        ({"pp": 3, "num_microbatches": 8, "schedule": "dualpipe"}, "use 4 and 8"),
        ({"pp": 4, "num_microbatches": 6, "schedule": "dualpipe"}, "use 4 and 8"),
        ({"pp": 4, "num_microbatches": 8, "virtual": 2, "schedule": "dualpipe"}, "use virtual = 1"),
    ],
)
def test_what_a_v_cannot_be(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        Layout(**wrong)


def test_the_ends_may_be_chunks_of_their_own():
    theirs = Layout(tp=8, pp=16, dp=128, virtual=8, num_microbatches=16)
    check_layout(LLAMA, theirs)
    assert peak_memory(LLAMA, theirs).total / GIB > 40
    with pytest.raises(ValueError, match="cannot fill 16 stages of 9 chunks"):
        check_layout(LLAMA, replace(theirs, virtual=9))


def test_a_network_in_gbit():
    assert with_network(H100, 400) == H100 and with_network(H100, 200).network == H100.network / 2
    for wrong in (0, -1, float("nan"), 50e9):
        with pytest.raises(ValueError, match="use a number above 0"):
            with_network(H100, wrong)


def test_an_interval_holds_the_prediction_and_grows_with_its_coverage():
    narrow, wide = step_interval(10.0, 0.5), step_interval(10.0)
    assert wide[0] < narrow[0] < 10 < narrow[1] < wide[1]
    with pytest.raises(ValueError, match="between 0 and 1"):
        step_interval(1.0, 1.0)


def test_the_interval_of_a_cpu_comes_from_trainings_on_one():
    """The shipped residuals match the benchmark's table."""
    table = (ROOT / "benchmarks" / "results" / "planned_trainings.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("|")]
    rows = [row for row in cells if row[-1].replace(".", "").isdigit()]
    for model, column in (("G", -2), ("L", -1)):
        assert [math.exp(one) for one in trained_here_residuals()[model]] == pytest.approx(
            [float(row[column]) for row in rows], rel=1e-3
        )
    low, high = step_interval(10.0, here=True)
    inside = [low <= 10 * math.exp(one) <= high for runs in trained_here_residuals().values() for one in runs]
    assert len(inside) == 34 and 0.9 <= sum(inside) / 34 < 1


def test_a_long_run_by_hand():
    run = long_run(ZOO["llama2-7b"], 64, 8, 2.0, 1_000_000, 43_200_000_000, 3.0)
    assert run.steps == 43_200 and run.days_without_failures == 1.0
    assert run.days == pytest.approx(1 / run.goodput) and 0.99 < run.goodput < 1
    assert run.price == pytest.approx(3 * 64 * 24 * run.days)
    assert run.failures == pytest.approx(419 * 64 / 16384 * run.days / 54)
    many = long_run(ZOO["llama2-7b"], 16384, 8, 2.0, 1_000_000, 43_200_000_000)
    assert many.goodput < run.goodput and many.price is None
