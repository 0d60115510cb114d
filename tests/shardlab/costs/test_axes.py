"""Formulas of single axes: experts, context, overlap."""

import random
from dataclasses import replace

import pytest
from shardlab import figures
from shardlab.context_parallel.balance import SequenceLayout, contiguous, striped, zigzag
from shardlab.context_parallel.mask import CAUSAL, Mask, tiles
from shardlab.costs import overlap
from shardlab.costs.axis_traffic import ep_layer_bytes
from shardlab.costs.context import (
    context_bytes,
    imbalance,
    kv_bytes,
    least_tokens_to_hide,
    pairs_of,
    ulysses_bytes,
    ulysses_sends_less,
)
from shardlab.costs.experts import (
    FP8_SCALED,
    dropped_share,
    exchange_bytes,
    expert_state_bytes,
    expert_tensor_bytes,
    fullest_expert,
    layer_exchange_bytes,
    nodes_of_token,
    split_expert_bytes,
    tokens_first,
    two_level_bytes,
)
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout
from shardlab.costs.models.model import num_parameters
from shardlab.costs.models.zoo import ZOO
from shardlab.costs.planning.planner import plan, seconds_of
from shardlab.figures.training import draw_overlap

# ---- Expert formulas compared with numbers that were drawn, published, or measured on ranks --------------------------


V3, H100 = ZOO["deepseek-v3"], ACCELERATORS["h100"]


def test_a_limit_of_four_nodes_takes_deepseek_v3_from_5_29_to_3_63():
    assert round(nodes_of_token(256, 8, 8), 2) == 5.29 and round(nodes_of_token(256, 8, 8, 4), 2) == 3.63
    assert nodes_of_token(256, 8, 1) == 1 and nodes_of_token(8, 8, 4) == 4
    for wrong in ((256, 8, 7), (256, 40, 8, 1), (256, 8, 8, 9)):
        with pytest.raises(ValueError, match="use a number of nodes that divides"):
            nodes_of_token(*wrong)


def test_bytes_of_a_layers_exchanges():
    """DeepSeek-V3: a token sends 8 rows of 7168 in fp8 and gets them back in bf16; over 4 nodes at most 28,672 sent."""
    assert exchange_bytes(1, 8, 7168) == 114_688
    assert exchange_bytes(1, 4, 7168, 1) == 28_672 and exchange_bytes(1, 4, 7168) == 57_344
    even = layer_exchange_bytes(4096, 8, 7168, 64)
    assert even == ep_layer_bytes(replace(V3, sequence=4096), Layout(dp=64, ep=64))
    assert layer_exchange_bytes(4096, 8, 7168, 64, dispatch_bytes=FP8_SCALED) / even == pytest.approx(0.758, abs=0.001)
    assert two_level_bytes(6, 4, 8, 1, 4) == 6 * (8 * 4 + 32)


@pytest.mark.parametrize(("size", "k"), [(8, 8), (4, 4), (2, 2)])
def test_ep_and_tp_send_as_much_when_top_k_is_the_number_of_ranks(size, k):
    assert layer_exchange_bytes(100, k, 64, size) == expert_tensor_bytes(100, 64, size)
    assert layer_exchange_bytes(100, 1, 64, size) < expert_tensor_bytes(100, 64, size)


@pytest.mark.parametrize("ep", [1, 2, 4])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 8])
def test_tokens_are_gathered_first_where_that_sends_less(k, ep):
    """Without the k weights and indices sent along: 2(t-1)T(k/e - 1)h less."""
    rows = layer_exchange_bytes(100, k, 4096, ep) + 2 * 3 * exchange_bytes(100, k, 4096)
    tokens = layer_exchange_bytes(400, k, 4096, ep) + expert_tensor_bytes(100, 4096, 4)
    assert rows - tokens == pytest.approx(2 * 3 * 100 * (k / ep - 1) * 4096 * 2)
    found = split_expert_bytes(100, k, 4096, ep=ep, etp=4)
    assert tokens_first(k, ep) == (tokens < rows)
    assert found == pytest.approx(tokens + 3 * 100 * 8 * k if tokens_first(k, ep) else rows)
    assert split_expert_bytes(100, k, 4096, ep=4, etp=1) == pytest.approx(layer_exchange_bytes(100, k, 4096, 4))


def test_dropped_choices_and_the_fullest_expert_are_those_that_were_drawn():
    """A uniform router: 64 experts, 64 rows each, k = 1, and the largest load over the mean for four sizes."""
    assert dropped_share(64) == pytest.approx(0.0496, abs=0.0005)
    assert dropped_share(64, 1.25) == pytest.approx(0.0012, abs=0.0002)
    assert dropped_share(64, 1.5) < 1e-4
    for experts, k, tokens, drawn in (
        (8, 2, 1024, 1.080),
        (64, 6, 4096, 1.110),
        (256, 8, 4096, 1.251),
        (256, 8, 65536, 1.062),
    ):
        assert fullest_expert(experts, k, tokens) == pytest.approx(drawn, abs=0.01)


def test_states_of_experts_and_active_parameters():
    assert num_parameters(V3) / num_parameters(V3, active=True) == pytest.approx(671 / 37, rel=0.03)
    one, spread = expert_state_bytes(V3, ep=64), expert_state_bytes(V3, ep=64, edp=2)
    assert one.total == 16 * 58 * 256 / 64 * 3 * 7168 * 2048
    assert spread.optimizer == one.optimizer / 2 and spread.parameters == one.parameters


@pytest.mark.slow
def test_only_uneven_experts_make_a_plan_slower():
    layout = Layout(dp=8, ep=8, num_microbatches=8)
    model = ZOO["mixtral-8x7b"]
    even, uneven = (seconds_of(model, layout, H100, imbalance=one) for one in (1.0, 1.5))
    assert even == seconds_of(model, layout, H100)
    assert uneven.compute > even.compute and uneven.expert == pytest.approx(1.5 * even.expert)
    alone = replace(layout, ep=1)
    assert seconds_of(model, alone, H100, imbalance=1.5) == seconds_of(model, alone, H100)
    best = [plan(model, H100, 16, 128, imbalance=one, best=1)[0].step.total for one in (1.0, 1.5)]
    assert best[1] >= best[0]
    with pytest.raises(ValueError, match=r"use 1\.0 for even loads"):
        seconds_of(model, layout, H100, imbalance=0.5)


# ---- Context parallel formulas compared with pairs counted one by one, published numbers, and each other -------------


def test_llama_3s_numbers():
    """405B, 16 ranks, s = 131,072: 503 versus 535 MB per layer; 566 if 8 key-value heads go to 16 ranks."""
    tokens, h, kv = 131072 / 16, 16384, 1024
    assert round(kv_bytes(16, tokens, kv) / 1e6) == 503
    assert round(ulysses_bytes(16, tokens, h, kv) / 1e6) == 535
    assert round(ulysses_bytes(16, tokens, h, kv, kv_heads=8) / 1e6) == 566


@pytest.mark.parametrize(("heads", "kv_heads"), [(8, 8), (64, 64), (128, 16), (256, 32), (512, 32)])
def test_ulysses_sends_less_from_where_the_inequality_says(heads, kv_heads):
    for ranks in range(2, kv_heads + 1):
        assert ulysses_sends_less(ranks, heads, kv_heads) == (ranks > 1 + heads / kv_heads)


def test_with_fewer_key_value_heads_than_ranks_it_takes_more_ranks():
    assert not ulysses_sends_less(9, 64, 8) and ulysses_sends_less(10, 64, 8)  # 10 * 7/8 > 8
    assert not any(ulysses_sends_less(ranks, 64, 1) for ranks in range(2, 65))


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("make", [contiguous, zigzag, striped])
def test_work_is_the_pairs_counted_one_by_one(make, ranks):
    for length, documents in ((64, ()), (64, (5, 40, 1, 18)), (48, (48,))):
        layout = make(length, ranks)
        begin_of = [sum(documents[:n]) for n in range(len(documents)) for _ in range(documents[n])] or [0] * length
        mask = Mask(documents=(documents,)) if documents else CAUSAL
        for rank in range(ranks):
            due = sum(position - begin_of[position] + 1 for position in layout.positions(rank).tolist())
            assert pairs_of(layout.chunks[rank], length, documents=documents) == due
            assert sum(tile.pairs for other in range(ranks) for tile in tiles(layout, rank, other, mask)) == due
            assert sum(tile.pairs for tile in tiles(layout, rank, None, mask)) == due


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_contiguous_work_is_two_less_a_cth_and_zigzag_is_even(ranks):
    assert imbalance(contiguous(131072, ranks).chunks) == pytest.approx(2 - 1 / ranks, rel=1e-4)
    assert imbalance(zigzag(131072, ranks).chunks) == 1.0
    assert imbalance(striped(131072, ranks).chunks) == pytest.approx(1 + (ranks - 1) / 131073)


def test_documents_unbalance_zigzag():
    """One long document at the front and many short ones: the rank with the first and the last piece has less work."""
    documents = (6144, *[128] * 16)
    assert imbalance(zigzag(8192, 4).chunks, documents=documents) > 1.3
    assert imbalance(striped(8192, 4).chunks, documents=documents) < 1.01


def test_no_mask_is_balanced_by_any_layout():
    assert imbalance(contiguous(64, 4).chunks, causal=False) == 1.0


def test_a_layout_that_one_draws_is_counted_too():
    draw = random.Random(0)
    owners = [rank for rank in range(4) for _ in range(4)]
    draw.shuffle(owners)
    chunks = [tuple(range(p, p + 1) for p, owner in enumerate(owners) if owner == rank) for rank in range(4)]
    work = [sum(p + 1 for p, owner in enumerate(owners) if owner == rank) for rank in range(4)]
    assert imbalance(SequenceLayout(tuple(chunks)).chunks) == max(work) / (sum(work) / 4)


def exposed_seconds(tokens, query_width, kv_width, *, flops, bandwidth, causal):
    """Sending 2 n h_kv numbers in bf16, minus attention of n = s/c tokens: 4 n^2 h FLOP, half if causal."""
    return 4 * tokens * kv_width / bandwidth - (2 if causal else 4) * tokens**2 * query_width / flops


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kv_share", [1, 1 / 8, 1 / 16])
def test_a_ring_hides_from_so_many_tokens_on(kv_share, causal):
    link = {"flops": 989e12, "bandwidth": 450e9, "causal": causal}
    least = least_tokens_to_hide(kv_share, **link)
    assert exposed_seconds(least * 1.001, 16384, 16384 * kv_share, **link) <= 0
    assert exposed_seconds(least * 0.999, 16384, 16384 * kv_share, **link) > 0


def test_where_an_h100_hides_its_ring():
    """F/B = 2,198 on NVLink and 19,780 on 50 GB/s; for Llama 3 405B, causal, 275 and 2,473 tokens per rank."""
    assert round(least_tokens_to_hide(1, flops=989e12, bandwidth=450e9, causal=False)) == 2198
    for bandwidth, tokens in ((450e9, 275), (50e9, 2472)):
        assert int(least_tokens_to_hide(1 / 16, flops=989e12, bandwidth=bandwidth)) in (tokens - 1, tokens)


def test_backwards_send_their_sums_in_four_bytes():
    assert context_bytes("ring", 4, 10, 64, 16) == (3 * 2 * 2 * 160, 3 * 2 * 2 * 160 + 3 * 2 * 4 * 160)
    assert context_bytes("gathered", 4, 10, 64, 16) == context_bytes("ring", 4, 10, 64, 16)
    assert context_bytes("ulysses", 4, 10, 64, 16) == (3 / 4 * 4 * 10 * 80,) * 2


def test_no_ranks_are_refused():
    with pytest.raises(ValueError, match="use 1 rank or more"):
        kv_bytes(0, 1, 1)


# ---- What a backward hides, computed by hand, and the figure's sentence ----------------------------------------------


LAYERS = [1.0, 2.0, 3.0]


def test_ten_and_eight():
    assert overlap.efficiency(10, 8) == pytest.approx(0.5556, abs=1e-4)
    assert overlap.efficiency(10, 0) == 1


def test_buckets_queue_for_the_link():
    ready = overlap.ready_times(2.0, LAYERS)
    assert ready == [3, 5, 8]
    timeline = overlap.transfers(ready, [4.0, 1.0, 1.0])
    assert timeline == [(3, 7), (7, 8), (8, 9)]
    assert overlap.exposed_seconds(8.0, timeline) == 1
    assert overlap.exposed_seconds(8.0, []) == 0


def test_one_bucket_hides_nothing():
    (transfer,) = overlap.transfers([8.0], [6.0])
    assert overlap.exposed_seconds(8.0, [transfer]) == 6


def test_impossible_times_are_refused():
    with pytest.raises(ValueError, match="one per bucket"):
        overlap.transfers([1.0], [])
    with pytest.raises(ValueError, match="more than 0"):
        overlap.efficiency(0, 1)


def test_the_figure_says_what_is_exposed():
    _, ax = figures.new_axes(7, 1.8)
    timeline = overlap.transfers(overlap.ready_times(2.0, LAYERS), [4.0, 1.0, 1.0])
    sentence = draw_overlap(ax, 2.0, LAYERS, timeline, title="Three buckets", limit_seconds=10)
    assert sentence.endswith("8 s of compute, 3 buckets, 1 s of communication exposed, efficiency 88.9%.")
    assert ax.get_title(loc="left") == "Three buckets: 89% efficiency"
    numbers = [text for text in ax.texts if text.get_position()[1] == 0]
    assert [text.get_text() for text in numbers] == ["F", "2", "1", "0"]
    assert numbers[1].get_position()[0] == 2 + LAYERS[0] / 2  # a layer's backward is one box, numbered in the middle
