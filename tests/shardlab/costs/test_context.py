"""The formulas of context parallelism: against pairs counted one by one, published numbers, and each other."""

import random

import pytest
from shardlab.context_parallel.balance import SequenceLayout, contiguous, striped, zigzag
from shardlab.context_parallel.mask import CAUSAL, Mask, tiles
from shardlab.costs.context import (
    context_bytes,
    imbalance,
    kv_bytes,
    least_tokens_to_hide,
    pairs_of,
    ring_step,
    ulysses_bytes,
    ulysses_sends_less,
)


def test_llama_3s_numbers():
    """405B, 16 ranks, s = 131,072: 503 against 535 MB per layer; 566 where 8 key-value heads go to 16 ranks."""
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
    """One long document at the front and many short ones: the rank of the first piece and the last has less."""
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


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kv_share", [1, 1 / 8, 1 / 16])
def test_a_ring_hides_from_so_many_tokens_on(kv_share, causal):
    link = {"flops": 989e12, "bandwidth": 450e9, "causal": causal}
    least = least_tokens_to_hide(kv_share, **link)
    assert ring_step(least * 1.001, 16384, 16384 * kv_share, **link).exposed == 0
    assert ring_step(least * 0.999, 16384, 16384 * kv_share, **link).exposed > 0


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
