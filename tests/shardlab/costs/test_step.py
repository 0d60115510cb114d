"""Step time: properties that hold for any constants, and published runs predicted as accurately as stated."""

from dataclasses import replace

import pytest
from shardlab.costs.clock.parts import exposed, summed_bytes
from shardlab.costs.clock.setup import (
    CURRENT,
    FITTED,
    LAUNCH_SECONDS,
    NVLINK,
    Efficiency,
    Setup,
    Software,
    links_of,
    nvlink_of,
    speed_of,
)
from shardlab.costs.clock.step import balanced_stages, bubble_share, step_seconds
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout
from shardlab.costs.links import dispatch_seconds, group_of, ring_bandwidth, ring_seconds
from shardlab.costs.memory.states import layers_of_stages
from shardlab.costs.models.zoo import ZOO

A100, H100 = ACCELERATORS["a100"], ACCELERATORS["h100"]
GPT3 = replace(ZOO["gpt3-175b"], flash=False)


def test_the_parts_add_up_and_compute_is_the_largest():
    step = step_seconds(GPT3, Layout(tp=8, pp=16, dp=8, num_microbatches=192, recompute="full"), Setup(A100))
    assert step.total == pytest.approx(sum(vars(step).values()))
    assert step.compute > 0.6 * step.total
    assert step.total == pytest.approx(32, rel=0.15)  # "around 32 seconds", Megatron-LM's README


@pytest.mark.parametrize(
    ("p", "m", "v", "share"), [(4, 8, 1, 3 / 11), (2, 4, 1, 1 / 5), (4, 8, 2, 3 / 19), (1, 3, 1, 0)]
)
def test_the_bubble(p, m, v, share):
    assert bubble_share(p, m, v) == share


def test_utilisation_at_one_four_and_eight_microbatches():
    assert [round(1 - bubble_share(2, m), 2) for m in (1, 4, 8)] == [0.5, 0.8, 0.89]


def test_the_bubble_of_a_step_is_the_formula_and_chunks_divide_it():
    step, chunked = (
        step_seconds(GPT3, Layout(tp=8, pp=4, virtual=v, num_microbatches=8, recompute="full"), Setup(A100))
        for v in (1, 3)
    )
    stages = step.compute - 8 * (step.compute / 8 - step.bubble / 3) + step.bubble  # without the output layer
    assert step.bubble / stages == pytest.approx(bubble_share(4, 8), rel=0.03)
    assert chunked.bubble < step.bubble / 2.5


def test_recomputation_costs_a_third_more():
    none, full = (step_seconds(GPT3, Layout(tp=8, recompute=r), Setup(A100)).compute for r in ("none", "full"))
    assert full / none == pytest.approx(4 / 3, rel=0.03)


@pytest.mark.parametrize("field", ["matmul_ampere", "memory", "network", "fp8"])
def test_better_hardware_is_never_slower(field):
    layout = Layout(tp=8, pp=4, dp=32, num_microbatches=16, overlap=False)
    faster = replace(FITTED, **{field: min(1.0, getattr(FITTED, field) * 1.05)})
    now, then = (step_seconds(GPT3, layout, Setup(A100, efficiency=e)).total for e in (FITTED, faster))
    assert then <= now


def test_rings_inside_a_server_and_beyond():
    ideal = links_of(A100, Efficiency(network=1.0))
    assert ring_bandwidth(ideal, group_of(ideal, 8)) == 300e9 * NVLINK.share
    assert ring_bandwidth(ideal, group_of(ideal, 16)) == 8 * 25e9  # eight rings, one through each card
    assert ring_bandwidth(ideal, group_of(ideal, 16), cards=1) == 25e9
    assert ring_bandwidth(ideal, group_of(ideal, 4, 8)) == 25e9  # one rank per server has one card
    assert ring_seconds(ideal, group_of(ideal, 1), 1e9) == 0
    assert ring_seconds(ideal, group_of(ideal, 4, 8), 25e9) == pytest.approx(1.0, rel=1e-3)


def test_a_call_inside_blackwells_nvlink_starts_later_than_inside_amperes():
    b200, a100, link = links_of(ACCELERATORS["b200"]), links_of(A100), nvlink_of("blackwell")
    assert nvlink_of("hopper") == NVLINK != link
    assert ring_seconds(b200, group_of(b200, 8), 0.0) == pytest.approx(link.call + 7 * link.alpha)
    assert ring_seconds(a100, group_of(a100, 8), 0.0) == pytest.approx(7 * NVLINK.alpha)


@pytest.mark.parametrize(
    ("zero", "apart", "gradient", "expected"), [(3, True, 4, 2), (1, False, 4, 4), (1, True, 2, 8), (1, True, 4, 12)]
)
def test_bytes_of_a_gradient_by_who_sums_it(zero, apart, gradient, expected):
    assert summed_bytes(Layout(dp=8, zero=zero), Software(gradients_apart=apart), gradient) == expected


def test_a_token_travels_once_to_a_server():
    ideal = links_of(H100, Efficiency(network=1.0))
    two, eight = (dispatch_seconds(ideal, group_of(ideal, 16), 50e9, copies) for copies in (1, 8))
    assert two == pytest.approx(0.5, rel=1e-3)  # half of the tokens go to the other of two servers
    assert eight < 8 * two  # at most once per server, however many experts it has


def test_overlap_hides_no_more_than_there_is():
    assert exposed(10, 4, 1.0) == 6 and exposed(3, 4, 1.0) == 0 and exposed(3, 4, 0.5) == 1.5


def test_fp8_needs_a_gpu_that_has_it():
    assert speed_of(H100, FITTED, fp8=True).matmul > speed_of(H100, FITTED).matmul
    with pytest.raises(ValueError, match="a100 has no fp8"):
        speed_of(A100, FITTED, fp8=True)


def test_context_and_expert_parallelism_are_predicted():
    long = replace(ZOO["llama3-8b"], sequence=131072)
    assert step_seconds(long, Layout(cp=8, zero=3), Setup(H100)).total > 0
    spread = step_seconds(ZOO["deepseek-v3"], Layout(pp=8, dp=32, ep=32, num_microbatches=16), Setup(H100))
    assert spread.expert > 0


def test_layers_are_dealt_to_stages():
    assert layers_of_stages(96, 8) == (12,) * 8
    assert layers_of_stages(126, 16) == (7, *[8] * 14, 7)  # Llama 3 405B: embedding and output each replace a layer
    assert layers_of_stages(61, 16) == (4,) * 13 + (3,) * 3
    assert balanced_stages(16, 2, output=4.0) == (10, 6)
    assert balanced_stages(32, 1 + 3, output=0.0) == (8, 8, 8, 8)
    assert all(sum(balanced_stages(n, p, 2.5)) == n for n in (8, 13, 80) for p in (2, 3, 4))


def test_the_output_layer_lengthens_the_last_stage_and_balance_shortens_it():
    wide = replace(ZOO["llama3-8b"], vocab=512_000)
    layout = Layout(pp=4, num_microbatches=64, microbatch=1)
    plain, balanced = (
        step_seconds(wide, layout, Setup(H100, software=Software(balanced_stages=which))).total
        for which in (False, True)
    )
    narrow = step_seconds(replace(wide, vocab=1000), layout, Setup(H100)).total
    assert narrow < balanced < plain


@pytest.mark.parametrize(
    "slower",
    [dict(newest_attention=False), dict(fused=False), dict(fused_loss=False), dict(one_card=True)],
    ids=lambda change: next(iter(change)),
)
def test_what_older_software_costs(slower):
    layout = Layout(dp=64, zero=3, num_microbatches=1, microbatch=1)
    now, old = (
        step_seconds(ZOO["llama3-8b"], layout, Setup(H100, software=s)).total for s in (CURRENT, Software(**slower))
    )
    assert old > now


def test_recomputing_every_other_product_is_between_all_and_attention():
    layout = Layout(dp=8, recompute="selective")
    products = step_seconds(ZOO["llama3-8b"], layout, Setup(H100, software=Software(half_products=True))).total
    full = step_seconds(ZOO["llama3-8b"], replace(layout, recompute="full"), Setup(H100)).total
    assert step_seconds(ZOO["llama3-8b"], layout, Setup(H100)).total < products < full


def test_experts_wait_unless_tokens_drop_and_exchanges_hide():
    layout = Layout(dp=16, ep=16, num_microbatches=4)
    steps = [
        step_seconds(ZOO["qwen3-30b-a3b"], layout, Setup(H100, software=software))
        for software in (CURRENT, Software(drops_tokens=True), Software(expert_overlap=True))
    ]
    assert steps[1].compute < steps[0].compute and steps[2].expert < steps[0].expert


def test_gradients_that_are_reduced_whole_travel_twice():
    """In fp32: 4 + 4 bytes per parameter without ZeRO, 4 + 2 with it, 4 + 4 + 2 if a program reduces them whole."""

    def data(zero, software=CURRENT):
        layout = Layout(dp=32, zero=zero, overlap=False)
        return step_seconds(GPT3, layout, Setup(A100, gradient_bytes=4, software=software)).data

    without, sharded, whole = data(0), data(1), data(1, Software(reduces_whole=True))
    assert without / sharded == pytest.approx(8 / 6, rel=0.001)
    assert whole / sharded == pytest.approx(10 / 6, rel=0.001)


def test_launches_that_block_come_on_top_of_every_pass():
    layout = Layout(tp=8, pp=4, num_microbatches=8, recompute="full")
    now, blocked = (
        step_seconds(GPT3, layout, Setup(A100, software=one)) for one in (CURRENT, Software(launches_block=True))
    )
    layers = layers_of_stages(GPT3.layers, 4)[0]
    assert blocked.compute - now.compute == pytest.approx(8 * layers * 3 * LAUNCH_SECONDS)  # forward twice, backward


def test_the_copies_of_a_tied_embedding_are_all_reduced_between_the_ends():
    layout = Layout(tp=8, pp=4, num_microbatches=8)
    tied, apart = (step_seconds(replace(GPT3, tied=tied), layout, Setup(A100)) for tied in (True, False))
    copy = 2 * GPT3.vocab * GPT3.hidden / 8
    seconds = copy / (A100.network * FITTED.network)
    assert tied.boundaries - apart.boundaries == pytest.approx(seconds, rel=0.01)
    assert step_seconds(replace(GPT3, tied=True), Layout(tp=8), Setup(A100)).boundaries == 0


def test_a_tiny_layer_takes_as_long_as_its_launches():
    one, two = (replace(ZOO["gpt2"], hidden=64 * n, heads=n, kv_heads=n, ffn=256 * n, vocab=100) for n in (1, 2))
    assert step_seconds(one, Layout(), Setup(H100)).compute == pytest.approx(
        step_seconds(two, Layout(), Setup(H100)).compute, rel=0.01
    )
    assert step_seconds(one, Layout(), Setup(H100)).compute > 12 * 2 * LAUNCH_SECONDS
