"""Memory of a rank, and what frameworks add to it."""

from dataclasses import replace

import pytest
from shardlab.costs.axis_traffic import traffic_of_step
from shardlab.costs.layout import Layout
from shardlab.costs.memory.frameworks import (
    CONTEXT,
    DEEPSPEED,
    DEEPSPEED_BUCKET,
    FRAGMENTS,
    NANOTRON,
    PAIR,
    RING,
    TORCHTITAN,
    TORCHTITAN_FUSED,
    BufferInputs,
    nccl_bytes,
    outside_bytes,
)
from shardlab.costs.memory.stage import (
    activation_bytes,
    gpt_layer_activation_bytes,
    in_flight_layers,
    layer_activation_bytes,
    memory_of_stage,
    output_bytes,
    peak_memory,
    recomputed_bytes,
)
from shardlab.costs.memory.states import (
    held_parameters,
    layers_on_stage,
    moe_layers_on_stage,
    parameters_on_stage,
    shard_elements,
    state_bytes,
    zero_state_bytes,
)
from shardlab.costs.models.model import embedding_parameters, num_parameters
from shardlab.costs.models.zoo import ZOO, gpt, llama
from shardlab.costs.validation.memory_rows import GB, GIB, first_stage_of_nanotron, reported_by, reported_bytes

# ---- Numbers of the ZeRO and activation papers; for GPT, a general layer must give the printed formulas --------------


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


# What frameworks hold besides states and activations, memory outside torch's count, and how rows are read


LLAMA = ZOO["llama3-8b"]
FSDP = Layout(dp=8, zero=3, microbatch=2)


def test_selective_recomputation_in_torchtitan_keeps_every_second_product():
    kept = layer_activation_bytes(LLAMA, replace(FSDP, recompute="selective"), framework=TORCHTITAN)
    h, f, kv = 4096, 14336, 1024  # the layer's input, Wq, the attention's output, W2: h each; Wv: kv; W1: f
    assert kept == 2 * 8192 * 2 * (4 * h + kv + f)
    assert kept < 0.5 * layer_activation_bytes(LLAMA, FSDP, framework=TORCHTITAN)


def test_a_gate_in_two_kernels_keeps_one_width_more():
    fused, apart = (layer_activation_bytes(LLAMA, FSDP, framework=one) for one in (TORCHTITAN, NANOTRON))
    assert apart - fused == 2 * 14336 * 2 * 8192


def test_gathered_inputs_are_kept_whole_or_gathered_again():
    layout = Layout(tp=8, sequence_parallel=True)
    fused = replace(TORCHTITAN, keeps_gathered=False)
    kept, again = (layer_activation_bytes(LLAMA, layout, framework=one) for one in (TORCHTITAN, fused))
    assert kept - again == 4 * 4096 * 8192 * 7 / 8
    assert again == layer_activation_bytes(LLAMA, layout)  # Megatron's


def test_logits_of_a_loss_in_one_kernel_are_two_in_bf16():
    positions, vocab = 2 * 8192, 128256
    eager, fused = (output_bytes(LLAMA, FSDP, framework=one) for one in (TORCHTITAN, TORCHTITAN_FUSED))
    assert eager - fused == (14 - 4) * positions * vocab
    split = Layout(tp=8, dp=4, zero=3, microbatch=2)
    assert output_bytes(LLAMA, split, framework=TORCHTITAN) == positions * (4 * 4096 + 18 * vocab / 8)
    sequence = replace(split, sequence_parallel=True)
    assert output_bytes(LLAMA, sequence, framework=TORCHTITAN) == positions * (2 * 4096 * 9 / 8 + 18 * vocab / 8)


def test_fsdp_keeps_the_root_whole_and_everything_under_a_pipeline():
    held = TORCHTITAN.gathered(LLAMA, FSDP, 8e9)
    layer = (8_030_261_248 - embedding_parameters(LLAMA) - 4096) / 32
    assert held == 2 * (embedding_parameters(LLAMA) + 2 * layer)
    assert TORCHTITAN.gathered(LLAMA, Layout(pp=4, dp=8, zero=3, num_microbatches=4), 2e9) == 6 * 2e9


def test_deepspeed_holds_a_second_copy_of_gradients():
    fp16, bf16 = (BufferInputs(1e9, gradient_bytes, 0.0) for gradient_bytes in (2, 4))
    layout = Layout(dp=8, zero=1)
    assert DEEPSPEED.buffers(fp16, layout) == 4e9 / 8 + 2 * DEEPSPEED_BUCKET
    assert DEEPSPEED.buffers(bf16, layout) == 2e9
    assert DEEPSPEED.buffers(fp16, Layout()) == 4e9  # 2 + 2 + 12 + 4: the 20 bytes of Megatron's fp16


def test_ddp_keeps_buckets_and_gradients_come_as_activations_go():
    assert NANOTRON.buffers(BufferInputs(1e9, 4, 3e9), Layout(dp=8, zero=1)) == 2e9
    assert NANOTRON.buffers(BufferInputs(1e9, 4, 0.5e9), Layout(tp=8)) == 1.5e9
    gathering = Layout(tp=8, sequence_parallel=True)
    assert NANOTRON.buffers(BufferInputs(1e9, 4, 2e9, hidden=1e8), gathering) == 2e8
    held = memory_of_stage(LLAMA, gathering, framework=NANOTRON)
    without = memory_of_stage(LLAMA, Layout(tp=8), framework=NANOTRON)
    assert held.buffers >= 2 * 2 * 8192 * 4096 and without.buffers < held.buffers


def test_a_stage_that_keeps_its_outputs_holds_one_more_a_microbatch():
    model = gpt("x", 8, 64, 4, sequence=32)
    layout = Layout(pp=4, num_microbatches=8, recompute="full")
    more = activation_bytes(model, layout, 1, framework=DEEPSPEED) - activation_bytes(model, layout, 1)
    assert more == 3 * 2 * 32 * 64


def test_logits_and_a_recomputed_layer_are_never_there_together():
    layout = replace(FSDP, recompute="full")
    held = memory_of_stage(LLAMA, layout, framework=TORCHTITAN)
    again = recomputed_bytes(LLAMA, layout, framework=TORCHTITAN)
    logits = output_bytes(LLAMA, layout, framework=TORCHTITAN)
    assert 0 < again < logits and held.output == logits - again
    assert recomputed_bytes(LLAMA, FSDP) == 0


@pytest.mark.parametrize(
    ("layers", "pp", "held"),
    [(12, 4, [3, 3, 3, 3]), (13, 4, [4, 3, 3, 3]), (126, 16, [7, *[8] * 14, 7]), (70, 12, [5, *[6] * 10, 5])],
)
def test_layers_of_stages(layers, pp, held):
    model = gpt("x", layers, 64, 4)
    assert [layers_on_stage(model, Layout(pp=pp), stage) for stage in range(pp)] == held and sum(held) == layers


def test_the_second_stage_is_fullest_if_embedding_replaces_a_layer():
    model = llama("x", layers=70, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=1024, sequence=4096)
    layout = Layout(pp=12, num_microbatches=64, tp=8, sequence_parallel=True)
    assert peak_memory(model, layout) == memory_of_stage(model, layout, 1)
    assert parameters_on_stage(model, layout, 1).total > parameters_on_stage(model, layout, 0).total


def test_communicators_are_counted_by_group():
    model = replace(gpt("x", 12, 768, 12), tied=True)
    assert nccl_bytes(model, Layout()) == 0
    assert nccl_bytes(model, Layout(dp=8)) == RING  # the world is that group
    assert nccl_bytes(model, Layout(dp=2)) == PAIR
    # tensor, pipeline, data, model, world, and the two ends of the tied embedding
    assert nccl_bytes(model, Layout(tp=8, pp=12, dp=4)) == 5 * RING + PAIR


def test_what_each_tool_counts():
    allocated, layout, model = 50e9, Layout(dp=8), ZOO["gpt2"]
    reserved, smi = (outside_bytes(model, layout, allocated, counted) for counted in ("reserved", "nvidia-smi"))
    assert outside_bytes(model, layout, allocated, "allocated") == 0
    assert reserved == FRAGMENTS * allocated and smi == reserved + RING + CONTEXT


@pytest.mark.parametrize(
    ("row", "counted", "unit", "framework"),
    [
        (
            {"source": "pytorch/torchtitan", "table": "x_202412_y Table 1", "note": "compile"},
            "reserved",
            GIB,
            TORCHTITAN,
        ),
        ({"source": "pytorch/torchtitan", "table": "x_202506_y", "note": "compile"}, "reserved", GIB, TORCHTITAN_FUSED),
        ({"source": "pytorch/torchtitan", "table": "x_202506_y", "note": "eager"}, "reserved", GIB, TORCHTITAN),
        ({"source": "bigscience-workshop/bigscience"}, "nvidia-smi", GIB, DEEPSPEED),
        ({"source": "huggingface/nanotron"}, "allocated", GIB, NANOTRON),
    ],
)
def test_what_a_source_measured(row, counted, unit, framework):
    read = reported_by(row)
    assert (read.counted, read.unit, read.framework) == (counted, unit, framework)


def test_a_row_that_says_nothing_counts_allocated_bytes_as_before():
    layout = Layout(tp=8, dp=2, sequence_parallel=True)
    assert reported_by({}).unit == GB
    assert reported_bytes(LLAMA, layout, reported_by({}), 4) == peak_memory(LLAMA, layout, gradient_bytes=4).total


def test_nanotron_s_first_stage_is_filled_beyond_its_share():
    # 8.86B on 4: 32 layers and an output layer worth 2.2 make 34.2, of which a stage's share is 8.55
    model = llama("x", layers=32, hidden=4096, heads=32, kv_heads=32, ffn=14336, vocab=131072, sequence=4096)
    assert first_stage_of_nanotron(model, Layout(pp=4)).layers == 9 * 4
    assert first_stage_of_nanotron(model, Layout()) == model
    shallow = replace(model, layers=2)
    assert first_stage_of_nanotron(shallow, Layout(pp=2)).layers == 2 * 2


def test_dense_layers_of_a_mixture_lie_in_front():
    model = replace(ZOO["deepseek-v3"], layers=16)  # 3 dense ones
    layout = Layout(pp=8, ep=8, dp=8, num_microbatches=8)
    assert [moe_layers_on_stage(model, layout, stage) for stage in range(8)] == [0, 1, 2, 2, 2, 2, 2, 2]
    assert held_parameters(model, layout, 0).experts == 0 < parameters_on_stage(model, layout, 0).experts
    for count in (held_parameters, parameters_on_stage):
        held = sum(count(model, layout, stage).dense + 8 * count(model, layout, stage).experts for stage in range(8))
        assert held == pytest.approx(num_parameters(model) - model.hidden)  # the last norm is left out
    assert peak_memory(model, layout) == memory_of_stage(model, layout, 2)
