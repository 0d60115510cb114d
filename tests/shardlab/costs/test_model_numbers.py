"""Models and layouts as numbers: sizes, parameters, FLOPs, and the bytes that follow from them."""

import csv
from dataclasses import replace

import pytest
from shardlab.costs.axis_traffic import (
    activation_bytes_of,
    cp_layer_bytes,
    ep_layer_bytes,
    gradient_bytes,
    pp_boundary_bytes,
    traffic_of_step,
)
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout, check_layout, with_global_batch
from shardlab.costs.machines import find_accelerator
from shardlab.costs.memory.states import parameters_on_stage
from shardlab.costs.models.flops import hardware_flops_per_token, model_flops_per_token, utilisation
from shardlab.costs.models.model import Transformer, dense_layer_parameters, num_parameters
from shardlab.costs.models.scaling import scaled_run
from shardlab.costs.models.zoo import TABLE, ZOO, find_model, gpt
from shardlab.costs.sizes import layout_sizes, model_sizes
from shardlab.costs.traffic import all_to_all_bytes, ring_all_reduce_bytes

# ---- A model and a layout as plain dicts, for students' own planners -------------------------------------------------


def test_a_model_of_grouped_keys():
    model = find_model("llama3-70b")
    assert model_sizes(model) == {
        "parameters": num_parameters(model),
        "kv": 1024,
        "layers": 80,
        "hidden": 8192,
        "heads": 64,
        "sequence": 8192,
    }


def test_a_layout():
    layout = Layout(tp=2, pp=4, dp=8, cp=2, microbatch=3, num_microbatches=4, virtual=2, recompute="full")
    assert layout_sizes(layout) == {
        "tp": 2, "cp": 2, "pp": 4, "dp": 8, "b": 3, "m": 4, "chunks": 2, "recompute": True,
    }  # fmt: skip
    assert layout_sizes(Layout(recompute="selective"))["recompute"] is False


# ---- Parameter counts compared with those of the models' publishers --------------------------------------------------


PUBLISHED = {
    "gpt2": 124_439_808,
    "llama2-7b": 6_738_415_616,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "yi-6b": 6_061_035_520,
    "yi-34b": 34_388_917_248,
    "olmo-7b": 6_888_095_744,
    "gemma2-9b": 9_241_705_984,
    "mixtral-8x7b": 46_702_792_704,
    "qwen3-30b-a3b": 30_532_122_624,
}


ROUNDED = {  # billions as printed in the papers, and the precision
    "gpt3-175b": (174.6, 0.05),  # arXiv 2104.04473, table 1; 175.0 in arXiv 2005.14165, table 2.1
    "gpt-22b": (22.0, 0.1),
    "mt-nlg-530b": (529.6, 0.05),
    "gpt-1t": (1008.0, 0.05),
    "deepseek-v3": (671.0, 0.05),
}


def test_every_model_of_the_zoo_matches_its_published_source():
    with TABLE.open(newline="", encoding="utf-8") as file:
        sources = {row["name"]: row["source"] for row in csv.DictReader(file)}
    assert set(PUBLISHED) | set(ROUNDED) == set(ZOO) == set(sources) and all(sources.values())


@pytest.mark.parametrize(("name", "printed"), ROUNDED.items())
def test_counts_come_to_the_printed_ones(name, printed):
    billions, digit = printed
    assert num_parameters(ZOO[name]) / 1e9 == pytest.approx(billions, abs=digit)


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_counts_are_exact(name, published):
    assert num_parameters(ZOO[name]) == published


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "billions"),
    [(24, 2304, 24, 1.7), (30, 3072, 32, 3.6), (48, 8192, 64, 39.1), (80, 12288, 96, 145.6), (105, 20480, 128, 529.6)],
)
def test_the_rows_of_megatrons_table_1(layers, hidden, heads, billions):
    assert num_parameters(gpt("row", layers, hidden, heads)) / 1e9 == pytest.approx(billions, abs=0.05)


def test_equation_2_of_ptd_p():
    model = gpt("one", 7, 64, 4, vocab=1000, sequence=32)
    assert dense_layer_parameters(model) == 12 * 64**2 + 13 * 64
    assert num_parameters(model) == 7 * (12 * 64**2 + 13 * 64) + (1000 + 32) * 64 + 2 * 64


def test_active_parameters_of_mixtures():
    assert num_parameters(ZOO["deepseek-v3"]) / 1e9 == pytest.approx(671, abs=0.5)
    assert num_parameters(ZOO["deepseek-v3"], active=True) / 1e9 == pytest.approx(37, abs=1)
    assert num_parameters(ZOO["mixtral-8x7b"], active=True) / 1e9 == pytest.approx(12.9, abs=0.05)
    assert num_parameters(ZOO["gpt2"], active=True) == num_parameters(ZOO["gpt2"])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"layers": 0}, "use 1 or more"),
        ({"ffn": -1}, "must not be negative"),
        ({"kv_heads": 3}, r"use \[1, 2, 4, 8\]"),
        ({"hidden": 100}, "give head_dim, or a hidden of 96"),
        ({"experts": 4}, "1 to 4 active"),
        ({"ffn": 0}, "is not an MLP"),
    ],
)
def test_sizes_that_make_no_model(wrong, sentence):
    sizes = {"layers": 2, "hidden": 64, "heads": 8, "kv_heads": 8, "ffn": 256, "vocab": 100, "sequence": 8}
    with pytest.raises(ValueError, match=sentence):
        Transformer("wrong", **(sizes | wrong))


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="gpt3-175b, gpt-22b"):
        find_model("gpt-9")


def test_a_model_on_longer_sequences_is_the_same_model_otherwise():
    book = find_model("llama3-405b", sequence=262_144)
    assert (book.sequence, num_parameters(book)) == (262_144, PUBLISHED["llama3-405b"])
    assert find_model("llama3-405b").sequence == 8192
    with pytest.raises(ValueError, match="use 1 or more"):
        find_model("llama3-405b", sequence=0)


# ---- Layouts that contradict themselves or the model, and the sentence with what would work --------------------------


def test_the_world_and_the_batch_of_a_layout():
    layout = with_global_batch(Layout(tp=8, pp=4, dp=32, microbatch=2), 1536)
    assert (layout.world, layout.num_microbatches, layout.sequences_per_step) == (1024, 24, 1536)
    assert Layout(tp=2, dp=4, ep=8).expert_sharers == 1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"tp": 0}, "use 1 or more"),
        ({"zero": 4}, "use 0, 1, 2 or 3"),
        ({"recompute": "some"}, "none, selective, full"),
        ({"dp": 4, "ep": 3}, r"use \[1, 2, 4\]"),
        ({"sequence_parallel": True}, "tp of 2 or more"),
        ({"virtual": 2}, "need a pipeline"),
        ({"pp": 4, "virtual": 2, "num_microbatches": 6}, "use 4"),
    ],
)
def test_a_layout_that_contradicts_itself(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        Layout(**wrong)


@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        ("gpt2", {"tp": 8}, "12 heads cannot be split over 8 ranks: .* 1, 2, 3, 4, 6 or 12"),
        ("gpt2", {"pp": 8, "virtual": 2}, "use at most 6 stages"),
        ("gpt2", {"dp": 2, "ep": 2}, "no experts"),
        ("mixtral-8x7b", {"dp": 16, "ep": 16}, "1, 2, 4 or 8"),
        ("gpt2", {"cp": 3}, "divisible by 6"),
    ],
)
def test_a_model_that_cannot_be_split_so(name, wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_layout(ZOO[name], Layout(num_microbatches=8, **wrong))


def test_a_batch_that_does_not_divide():
    with pytest.raises(ValueError, match="multiple of 64, such as 128"):
        with_global_batch(Layout(dp=32, microbatch=2), 100)


# ---- The course's numbers for 175B parameters at TP8 PP4 DP32, and Megatron's FLOP formulas --------------------------


GPT3, TP8_PP4_DP32 = ZOO["gpt3-175b"], Layout(tp=8, pp=4, dp=32)


def test_175b_at_tp8_pp4_dp32():
    step = traffic_of_step(GPT3, TP8_PP4_DP32)
    assert activation_bytes_of(GPT3, TP8_PP4_DP32) / 1e6 == pytest.approx(50.3, abs=0.05)
    assert ring_all_reduce_bytes(8, activation_bytes_of(GPT3, TP8_PP4_DP32)) / 1e6 == pytest.approx(88.1, abs=0.05)
    assert step.tp_forward / 1e9 == step.tp_backward / 1e9 == pytest.approx(4.23, abs=0.005)
    assert step.pp_forward / 1e6 == step.pp_backward / 1e6 == pytest.approx(50.3, abs=0.05)
    assert gradient_bytes(GPT3, TP8_PP4_DP32, stage=1) / 1e9 == pytest.approx(21.1, abs=0.05)


def test_all_to_all_of_eight_experts():
    model = Transformer("moe", 1, 4096, 32, 32, 0, 32000, 2048, experts=8, active_experts=2, expert_ffn=1)
    one_way = ep_layer_bytes(model, Layout(dp=8, ep=8)) / 2  # 2,048 of 16,384 tokens on each rank
    assert one_way / 1e6 == pytest.approx(29.4, abs=0.05) and 8 * one_way / 1e6 == pytest.approx(235, abs=0.5)
    assert one_way == all_to_all_bytes(8, 2048 * 2 * 4096 * 2)


def test_sequence_parallelism_sends_an_eighth_between_stages():
    layout = Layout(tp=8, pp=4, dp=32, sequence_parallel=True)
    assert traffic_of_step(GPT3, layout).tp_forward == traffic_of_step(GPT3, TP8_PP4_DP32).tp_forward
    assert pp_boundary_bytes(GPT3, layout) == pp_boundary_bytes(GPT3, TP8_PP4_DP32) / 8


def test_a_ring_of_keys_and_values_is_narrower_with_shared_heads():
    ring = cp_layer_bytes(ZOO["llama3-8b"], Layout(cp=4))
    assert ring == 3 * 2 * 2 * (8192 / 4) * 1024
    assert cp_layer_bytes(ZOO["llama2-7b"], Layout(cp=4)) == ring * 4 / 2  # 4 x the heads, half the length


@pytest.mark.parametrize(("stage", "times"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_zero_traffic(stage, times):
    layout = Layout(dp=8, zero=stage)
    held = parameters_on_stage(GPT3, layout).dense
    assert gradient_bytes(GPT3, layout) == pytest.approx(times * 7 / 8 * 2 * held)


def test_gradients_in_fp32_come_back_in_fp32_without_zero():
    bytes_of = [gradient_bytes(GPT3, Layout(dp=8, zero=zero), bytes_each=4) for zero in (0, 1)]
    assert bytes_of[0] / bytes_of[1] == pytest.approx((4 + 4) / (4 + 2))


def test_zero_3_gathers_in_every_microbatch():
    once, four = (gradient_bytes(GPT3, Layout(dp=8, zero=3, num_microbatches=m)) for m in (1, 4))
    assert four == 4 * once


@pytest.mark.parametrize(("layers", "h", "heads"), [(96, 12288, 96), (48, 6144, 64)])
def test_megatrons_formulas(layers, h, heads):
    model = gpt("x", layers, h, heads)
    s, vocab = 2048, 51200
    once = 72 * layers * h**2 * (1 + s / (6 * h) + vocab / (12 * layers * h))
    full = 96 * layers * h**2 * (1 + s / (6 * h) + vocab / (16 * layers * h))
    assert model_flops_per_token(model) == pytest.approx(once)
    assert hardware_flops_per_token(model, "full") == pytest.approx(full)
    selective = 72 * layers * h**2 * (1 + 2 * s / (9 * h) + vocab / (12 * layers * h))
    assert hardware_flops_per_token(model, "selective") == pytest.approx(selective)


def test_published_utilisation_of_530b():  # arXiv 2205.05198, table 5: 37.83 s on 280 GPUs, 56.0% and 57.0%
    tokens, gpus, peak = 280 * 2048, 280, ACCELERATORS["a100"].bf16_flops
    model = ZOO["mt-nlg-530b"]
    assert utilisation(model_flops_per_token(model), tokens, 37.83, gpus, peak) == pytest.approx(0.560, abs=0.001)
    ours = utilisation(hardware_flops_per_token(model, "selective"), tokens, 37.83, gpus, peak)
    assert ours == pytest.approx(0.5635, abs=0.0005)
    printed = 72 * 105 * 20480**2 * (1 + 2048 / (3 * 20480) + 51200 / (12 * 105 * 20480))
    assert utilisation(printed, tokens, 37.83, gpus, peak) == pytest.approx(0.570, abs=0.001)


def test_a_mixture_pays_for_active_experts_only():
    model = replace(ZOO["mixtral-8x7b"], sequence=4096)
    visited = num_parameters(model, active=True) - model.vocab * model.hidden  # the embedding is only looked up
    assert 6 * visited < model_flops_per_token(model, causal=True) < 1.1 * 6 * visited


def test_links_of_a_data_sheet():
    h100 = find_accelerator("H100")
    assert (h100.nvlink, h100.network, h100.per_node) == (450e9, 50e9, 8)
    with pytest.raises(ValueError, match="a100-40, a100, h100"):
        find_accelerator("tpu")


def test_scaling_laws_spend_the_whole_budget():
    for times in (0.5, 1, 10, 1e4):
        parameters, tokens, loss = scaled_run(70e9, 2e12, 2.0, times)
        assert parameters * tokens == pytest.approx(times * 70e9 * 2e12) and (loss < 2.0) == (times > 1)
    assert scaled_run(1, 1, 2.0, 100)[::2] == pytest.approx((28.84, 1.589), rel=1e-3)  # by hand on week 16's page
