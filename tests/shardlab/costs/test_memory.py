"""ZeRO's and the activation papers' numbers; a general layer must come to the printed formulas for GPT."""

from dataclasses import replace

import pytest
from shardlab.costs.axis_traffic import traffic_of_step
from shardlab.costs.layout import Layout
from shardlab.costs.memory import (
    activation_bytes,
    gpt_layer_activation_bytes,
    in_flight_layers,
    layer_activation_bytes,
    peak_memory,
)
from shardlab.costs.memory_states import parameters_on_stage, shard_elements, state_bytes, zero_state_bytes
from shardlab.costs.model import num_parameters
from shardlab.costs.model_zoo import ZOO, gpt


@pytest.mark.parametrize(("stage", "bytes_each"), [(0, 16), (1, 5.5), (2, 3.75), (3, 2)])
def test_zero_at_eight_ranks(stage, bytes_each):
    assert zero_state_bytes(1e9, 8, stage).total == bytes_each * 1e9


def test_a_hundred_million_parameters_on_two_gpus():
    assert [round(zero_state_bytes(100e6, 2, stage).total / 1e9, 2) for stage in range(4)] == [1.6, 1.0, 0.9, 0.8]


def test_table_of_zero_paper():  # 7.5B parameters on 64 ranks, arXiv 1910.02054, figure 1
    gigabytes = [round(zero_state_bytes(7.5e9, 64, stage).total / 1e9, 1) for stage in range(4)]
    assert gigabytes == [120.0, 31.4, 16.6, 1.9]


def test_gradients_in_fp32_make_18_bytes():
    assert zero_state_bytes(1.0, 1, 0, gradient_bytes=4).total == 18


@pytest.mark.parametrize(("ranks", "shard", "padding"), [(2, 929, 1), (4, 465, 3)])
def test_shards_of_1857_parameters(ranks, shard, padding):
    assert shard_elements(1857, ranks) == (shard, padding)


def test_stages_share_all_parameters():
    model = ZOO["llama3-8b"]
    layout = Layout(tp=2, pp=4)
    held = sum(parameters_on_stage(model, layout, stage).total for stage in range(4)) * 2
    assert held == num_parameters(model) - model.hidden  # the last norm is left out


def test_experts_are_split_over_their_own_ranks():
    model = ZOO["mixtral-8x7b"]
    whole, spread = (parameters_on_stage(model, Layout(dp=8, ep=ep)) for ep in (1, 8))
    assert spread.experts == whole.experts / 8 and spread.dense == whole.dense
    assert state_bytes(model, Layout(dp=8, ep=8, zero=1)).optimizer == 12 * (spread.dense / 8 + spread.experts)


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("recompute", ["none", "selective"])
def test_a_gpt_layer_is_table_2(sequence_parallel, recompute):
    model = gpt("530b", 105, 20480, 128, flash=False)
    layout = Layout(tp=8, microbatch=3, sequence_parallel=sequence_parallel, recompute=recompute)
    printed = gpt_layer_activation_bytes(
        2048, 3, 20480, 128, 8, sequence_parallel=sequence_parallel, recompute=recompute
    )
    assert layer_activation_bytes(model, layout) == pytest.approx(printed)


def test_flash_attention_keeps_what_selective_recomputation_keeps():
    flash, selective = (
        layer_activation_bytes(gpt("x", 4, 1024, 16, flash=flash), Layout(recompute=recompute))
        for flash, recompute in ((True, "none"), (False, "selective"))
    )
    assert flash == selective == 34 * 2048 * 1024


def test_selective_recomputation_saves_what_the_paper_says():  # section 5: 5as/h is 80 for GPT-3, 64 for MT-NLG
    assert gpt_layer_activation_bytes(2048, 1, 12288, 96) / (2048 * 12288) == 34 + 80
    assert gpt_layer_activation_bytes(2048, 1, 20480, 128) / (2048 * 20480) == 34 + 64


def test_microbatches_in_flight():
    model = gpt("x", 16, 64, 4)
    layout = Layout(pp=4, num_microbatches=8)
    assert [in_flight_layers(model, layout, stage) for stage in range(4)] == [16, 12, 8, 4]
    assert in_flight_layers(model, Layout(pp=4, num_microbatches=8, schedule="gpipe"), 0) == 32
    interleaved = in_flight_layers(model, Layout(pp=4, num_microbatches=8, virtual=2), 0)
    assert interleaved == 2 * 11  # of 16 chunks of 2 layers: L(1 + (p-1)/pv) = 22
    assert interleaved == 16 * (1 + 3 / 8)


def test_full_recomputation_keeps_inputs_and_one_layer():
    model = gpt("x", 8, 64, 4, sequence=32)
    full = activation_bytes(model, Layout(recompute="full"))
    assert full == 8 * 2 * 32 * 64 + layer_activation_bytes(model, Layout())


def test_a_peak_is_the_sum_of_its_parts():
    memory = peak_memory(ZOO["gpt3-175b"], Layout(tp=8, pp=16, dp=8, num_microbatches=24, sequence_parallel=True))
    assert memory.total == memory.states.total + memory.activations + memory.output
    assert 20e9 < memory.total < 80e9


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_float32_doubles_activations_and_needs_no_master_weights(recompute):
    half = replace(ZOO["llama2-7b"], flash=True)  # no dropout, so no masks
    layout = Layout(tp=2, pp=2, cp=2, num_microbatches=4, sequence_parallel=True, recompute=recompute)
    whole = replace(half, number_bytes=4)
    assert activation_bytes(whole, layout) == pytest.approx(2 * activation_bytes(half, layout))
    small, large = (state_bytes(one, layout, gradient_bytes=4) for one in (half, whole))
    assert (small.parameters, small.gradients, small.optimizer) == pytest.approx(
        (large.parameters / 2, large.gradients, large.optimizer * 12 / 8)
    )
    sent, twice = (vars(traffic_of_step(one, replace(layout, dp=2))) for one in (half, whole))
    assert twice == pytest.approx({axis: 2 * num_bytes for axis, num_bytes in sent.items()})
