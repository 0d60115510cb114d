"""The course's numbers of 175B parameters at TP8 PP4 DP32, and Megatron's FLOP formulas."""

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
from shardlab.costs.flops import hardware_flops_per_token, model_flops_per_token, utilisation
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout
from shardlab.costs.machines import find_accelerator
from shardlab.costs.memory_states import parameters_on_stage
from shardlab.costs.model import Transformer, num_parameters
from shardlab.costs.model_zoo import ZOO, gpt
from shardlab.costs.traffic import all_to_all_bytes, ring_all_reduce_bytes

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
    visited = num_parameters(model, active=True) - model.vocab * model.hidden  # the embedding is looked up
    assert 6 * visited < model_flops_per_token(model, causal=True) < 1.1 * 6 * visited


def test_links_of_a_data_sheet():
    h100 = find_accelerator("H100")
    assert (h100.nvlink, h100.network, h100.per_node) == (450e9, 50e9, 8)
    with pytest.raises(ValueError, match="a100-40, a100, h100"):
        find_accelerator("tpu")
