"""Numbers of the curriculum and of interview questions are computed."""

import math
import re
from dataclasses import replace
from string import Formatter

import pytest
from shardlab.costs import Layout, find_accelerator, find_model
from shardlab.costs.axis_traffic import (
    activation_bytes_of,
    ep_layer_bytes,
    gradient_bytes,
    pp_boundary_bytes,
    tp_layer_bytes,
    traffic_of_step,
)
from shardlab.costs.clock.step import bubble_share
from shardlab.costs.memory.stage import gpt_layer_activation_bytes, in_flight_layers
from shardlab.costs.memory.states import shard_elements, zero_state_bytes
from shardlab.costs.models.flops import layer_matmul_flops
from shardlab.costs.models.model import Transformer
from shardlab.costs.models.zoo import ZOO, gpt
from shardlab.costs.overlap import efficiency, exposed_seconds, ready_times, transfers
from shardlab.costs.traffic import (
    all_to_all_bytes,
    ring_all_gather_bytes,
    ring_all_reduce_bytes,
    ring_reduce_scatter_bytes,
    zero_bytes,
)
from shardlab.pipeline_parallel.builders import BUILDERS, dualpipe, zb_h1
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.simulation import peak_activations, simulate
from shardlab.study.interview import QUESTIONS, Setting, asked_in_random_order
from shardlab.study.interview.asking import asked

from tests.shardlab.costs.recipes import RECIPES

# ---- The oral questions: every answer is computed for every setting, none has a literal number, known ones match. ----

H100 = find_accelerator("h100")
LLAMA = Setting(
    find_model("llama3-70b"),
    Layout(tp=8, pp=4, dp=16, num_microbatches=64, zero=1, sequence_parallel=True),
    H100,
    tokens=2e12,
)
SETTINGS = {
    "llama": LLAMA,
    "one GPU": Setting(find_model("gpt2"), Layout(num_microbatches=8), find_accelerator("a100"), tokens=1e10),
    "experts": Setting(
        find_model("deepseek-v3"), Layout(pp=16, dp=128, ep=64, num_microbatches=120, zero=1), H100, tokens=14.8e12
    ),
    "context": Setting(
        find_model("llama3-405b"),
        Layout(tp=8, cp=4, pp=7, dp=2, num_microbatches=14, virtual=2, zero=1, sequence_parallel=True),
        H100,
        tokens=1e12,
        hours_of_one=9_000.0,
    ),
}
NAMES = re.compile(
    r"\bH100s?\b|\b1F1B\b|\bZB-H1\b|\bZeRO-[123]\b|\bDeepSeek-V3\b|\bGPT-3 175B\b|\b(bf|fp|float)\d+\b"
    r"|[Nmp]−1|c > 1 \+ h"  # formulas in letters
)
COUNTED = re.compile(r"\b(eleven|twelve|sixteen|twenty|thirty|forty|hundred|thousand|million|billion|percent)\b")


def texts(template: str) -> str:
    """A template without its fields, and without names and formulas that contain a digit."""
    return NAMES.sub("", "".join(literal for literal, *_ in Formatter().parse(template)))


def test_there_are_at_least_thirty_and_every_week_asks():
    assert len(QUESTIONS) >= 30
    assert len({question.asked for question in QUESTIONS}) == len(QUESTIONS)
    assert {question.week for question in QUESTIONS} == {f"week{week:02}" for week in range(1, 17)}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.asked[:40])
def test_no_number_is_written_into_a_text(question):
    for template in (question.asked, question.answer):
        assert not re.search(r"\d", texts(template)), texts(template)
    units = {"million", "thousand", "billion", "trillion"}  # next to a computed number
    for word in COUNTED.findall(texts(question.answer)):
        assert word in units and re.search(rf"\{{[^}}]*\}} {word}", question.answer)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.asked[:40])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_answer_is_computed_for_every_setting(question, name):
    numbers = question.numbers(SETTINGS[name])
    assert all(math.isfinite(value) for value in numbers.values() if not isinstance(value, str))
    used = {field for template in (question.asked, question.answer) for _, field, *_ in Formatter().parse(template)}
    assert set(numbers) == used - {None}, "a number is computed in vain, or is missing"
    ready = asked(question, SETTINGS[name])
    assert re.search(r"\d", ready.answer) and "{" not in ready.question + ready.answer


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.asked[:40])
def test_own_numbers_are_those_of_the_setting(question):
    assert (len({asked(question, setting) for setting in SETTINGS.values()}) > 1) == question.own


def test_the_order_is_another_each_time_and_nothing_is_left_out():
    first, second = (asked_in_random_order(LLAMA, seed) for seed in (1, 2))
    assert first != second and sorted(map(str, first)) == sorted(map(str, second))
    assert first == asked_in_random_order(LLAMA, 1) and len(first) == len(QUESTIONS)


@pytest.mark.parametrize(
    ("begins", "says"),
    [
        ("You go from", "1.125"),
        ("A step computes", "Without overlap, 56%"),
        ("A model of", "1.6 GB with DDP, then 1.0, 0.9 and 0.8 GB"),
        ("GPT-3 175B", "4.23 GB per microbatch"),
        ("Two stages", "50%, 80% and 89%"),
        ("{experts} experts on {nodes}", "5.29 on average, and 3.63"),
        ("EP {gpus} or TP", "176 MB per GPU in a forward, TP 235 MB"),
        ("DeepSeek-V3 reports", "180 thousand GPU hours, 3.7 days on 2,048 GPUs"),
        ("{gpus:,} GPUs had", "every 3.1 hours"),
        ("{layers} layers", "24 all-reduces of 4 MiB, about 3.1 ms"),
    ],
)
def test_answers_that_are_known_from_the_weeks_and_from_papers(begins, says):
    (question,) = [question for question in QUESTIONS if question.asked.startswith(begins)]
    assert says in asked(question, LLAMA).answer


def test_a_setting_knows_its_costs():
    assert LLAMA.days * LLAMA.tokens_per_step == pytest.approx(LLAMA.tokens * LLAMA.step.total / 86400)
    assert replace(LLAMA, dollars=4.0).days == LLAMA.days
    assert pytest.approx(50_000 / 512) == LLAMA.between / 3600


# ---- Every number of the curriculum's last section, computed by the function that the course uses for it. ------------

GPT3, TP8_PP4_DP32 = ZOO["gpt3-175b"], Layout(tp=8, pp=4, dp=32)

# ---- numbers to assert -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "peaks"), [("gpipe", [8, 8, 8, 8]), ("1f1b", [4, 3, 2, 1])])
def test_four_stages_eight_microbatches(name, peaks):
    schedule = BUILDERS[name](4, 8)
    equal = Durations(forward=1.0, input_gradient=0.5, weight_gradient=0.5)  # F = B
    assert simulate(schedule, equal).bubble == pytest.approx(3 / 11) == bubble_share(4, 8)
    assert peak_activations(schedule) == peaks
    kind = "gpipe" if name == "gpipe" else "1f1b"
    layout = Layout(pp=4, num_microbatches=8, schedule=kind)
    assert [in_flight_layers(gpt("x", 4, 64, 4), layout, stage) for stage in range(4)] == peaks


def test_zero_bubble_h1_idles_a_ninth():
    assert simulate(zb_h1(4, 8)).bubble == pytest.approx(1 / 9)


def test_dualpipe_of_eight_ranks_idles_six_of_sixty_six():
    timeline = simulate(dualpipe(8, 20))
    assert timeline.makespan == pytest.approx(66) and timeline.idle == pytest.approx([6] * 8)


def test_175b_by_tp8_pp4_dp32():
    payload = activation_bytes_of(GPT3, TP8_PP4_DP32)
    assert payload == 2 * 2048 * 12288 == 50_331_648  # 50.3 MB
    assert ring_all_reduce_bytes(8, payload) == 88_080_384  # 88.1 MB sent
    step = traffic_of_step(GPT3, TP8_PP4_DP32)
    assert step.tp_forward == 24 * 2 * 88_080_384 == step.tp_backward  # 4.23 GB each way per microbatch
    assert round(step.tp_forward / 1e9, 2) == 4.23
    assert pp_boundary_bytes(GPT3, TP8_PP4_DP32) == payload == step.pp_forward == step.pp_backward
    assert round(gradient_bytes(GPT3, TP8_PP4_DP32, stage=1) / 1e9, 1) == 21.1


def test_eight_experts_ranks_top_2():
    a_rank = 16_384 // 8
    assert round(all_to_all_bytes(8, a_rank * 2 * 4096 * 2) / 1e6, 1) == 29.4
    assert round(8 * all_to_all_bytes(8, a_rank * 2 * 4096 * 2) / 1e6) == 235
    model = Transformer("moe", 1, 4096, 32, 32, 0, 32000, 2048, experts=8, active_experts=2, expert_ffn=1)
    assert ep_layer_bytes(model, Layout(dp=8, ep=8)) == 2 * all_to_all_bytes(8, a_rank * 2 * 4096 * 2)


@pytest.mark.parametrize(("ranks", "shard", "padding"), [(2, 929, 1), (4, 465, 3)])
def test_shards_of_1857_parameters(ranks, shard, padding):
    assert shard_elements(1857, ranks) == (shard, padding) and ranks * shard == 1857 + padding


@pytest.mark.parametrize(("stage", "bytes_each"), [(0, 16), (1, 5.5), (2, 3.75), (3, 2)])
def test_bytes_a_parameter_on_eight_ranks(stage, bytes_each):
    assert zero_state_bytes(1e6, 8, stage).total == bytes_each * 1e6


def test_a_hundred_million_parameters_on_two_gpus():
    gigabytes = [zero_state_bytes(100e6, 2, stage).total / 1e9 for stage in range(4)]
    assert gigabytes == pytest.approx([1.6, 1.0, 0.9, 0.8])


def test_activations_of_a_layer():
    s, h, a = 2048, 12288, 96
    per_element = [
        gpt_layer_activation_bytes(s, 1, h, a, recompute=recompute) / (s * h)
        for recompute in ("none", "selective", "full")
    ]
    assert per_element == [34 + 5 * a * s / h, 34, 2] == [114, 34, 2]
    assert gpt_layer_activation_bytes(s, 1, h, a, 8, sequence_parallel=True, recompute="selective") == s * h * 34 / 8


# ---- wrong claims in the seeds ---------------------------------------------------------------------------------------


def test_sixteen_bytes_a_parameter_and_eighteen_with_fp32_gradients():
    mixed = RECIPES["mixed"]
    assert (mixed.weights, mixed.gradients, mixed.optimizer, mixed.total) == (2, 2, 12, 16)
    assert RECIPES["bf16-fp32-gradients"].total == zero_state_bytes(1, 1, 0, gradient_bytes=4).total == 18
    assert mixed.total == 4 * 4  # 4 elements of fp32 for each parameter
    assert mixed.optimizer / mixed.weights == 6  # not 12 times the model


def test_traffic_grows_as_the_width_and_compute_as_its_square():
    narrow, wide = gpt("narrow", 12, 1024, 16), gpt("wide", 12, 2048, 16)
    layout = Layout(tp=4)
    assert tp_layer_bytes(wide, layout) == 2 * tp_layer_bytes(narrow, layout)
    assert layer_matmul_flops(wide) == 4 * layer_matmul_flops(narrow)


def test_zero_3_saves_n_times_not_three_n():
    for ranks in (2, 8, 64):
        assert zero_state_bytes(1e9, ranks, 0).total / zero_state_bytes(1e9, ranks, 3).total == ranks


def test_an_all_reduce_is_what_is_cut_in_two():
    for ranks in (2, 3, 8):
        halves = ring_reduce_scatter_bytes(ranks, 1e6) + ring_all_gather_bytes(ranks, 1e6)
        assert ring_all_reduce_bytes(ranks, 1e6) == halves == zero_bytes(ranks, 1e6, 1)


def test_four_and_eight_times_are_limits():
    def saved(ranks: int, stage: int) -> float:
        return zero_state_bytes(1e9, ranks, 0).total / zero_state_bytes(1e9, ranks, stage).total

    assert [round(saved(8, stage), 1) for stage in (1, 2)] == [2.9, 4.3]
    assert [saved(10**9, stage) for stage in (1, 2)] == pytest.approx([4, 8])


def test_twenty_four_communications_of_4_mib():
    model, layout = gpt("small", 12, 1024, 16, sequence=2048), Layout(tp=2)
    payload = activation_bytes_of(model, layout)
    assert payload == 4 * 2**20
    forward = traffic_of_step(model, layout).tp_forward
    assert forward / ring_all_reduce_bytes(2, payload) == 24
    step = traffic_of_step(model, layout)
    assert (step.tp_forward + step.tp_backward) / ring_all_reduce_bytes(2, payload) == 48


def test_p2p_volume_is_for_a_boundary_and_a_direction():
    base = replace(TP8_PP4_DP32, num_microbatches=8)
    one_way = activation_bytes_of(GPT3, base) * 8
    step = traffic_of_step(GPT3, base)
    assert step.pp_forward == step.pp_backward == one_way
    assert traffic_of_step(GPT3, replace(base, virtual=2)).pp_forward == 2 * one_way
    assert traffic_of_step(GPT3, replace(base, sequence_parallel=True)).pp_forward == one_way / 8


def test_ten_and_eight_milliseconds_are_56_percent_only_without_overlap():
    assert efficiency(10e-3, 8e-3) == pytest.approx(0.556, abs=1e-3)
    # forward 4, backward 6 in three layers, with one bucket of 8/3 each
    ready = ready_times(4e-3, [2e-3] * 3)
    hidden = exposed_seconds(10e-3, transfers(ready, [8e-3 / 3] * 3))
    assert hidden == pytest.approx(4e-3) and efficiency(10e-3, hidden) == pytest.approx(10 / 14)


def test_a_bubble_of_two_stages_and_four_microbatches():
    assert 1 - bubble_share(2, 4) == pytest.approx(4 / 5)  # of two GPUs: 1.6 times one
    assert [round(1 - bubble_share(2, m), 2) for m in (1, 4, 8)] == [0.5, 0.8, 0.89]
    assert simulate(BUILDERS["gpipe"](2, 4)).bubble == pytest.approx(1 / 5)
