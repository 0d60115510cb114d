"""Memory of a ring: this rank's share plus two blocks of keys and values, in the forward and in the backward."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.context_parallel.attention import attend
from shardlab.context_parallel.balance import contiguous, striped, zigzag
from shardlab.context_parallel.ring import _Leaving
from shardlab.costs.context import extra_kv_blocks, ring_strips
from shardlab.meter.held import alive

TOKENS, WIDTH = 2048, 8


def peaks(heads, kv_heads, dtype, keep_all=False):
    """Peak bytes of a forward and of a backward, on a single rank and as part of a ring."""
    alone = dist.new_subgroups_by_enumeration([[rank] for rank in range(dist.get_world_size())])[0]
    if keep_all:
        wait = _Leaving.wait
        _Leaving.wait = lambda leaving, most=0: None if most else wait(leaving)
    found = []
    for group in (alone, None):
        size = dist.get_world_size(group)
        shapes = [(1, count, TOKENS, WIDTH) for count in (heads, kv_heads, kv_heads)]
        q, k, v = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
        with alive([q, k, v]) as forward:
            o = attend(q, k, v, layout=zigzag(TOKENS * size, size), group=group, agreed=True)
        with alive([q, k, v, o]) as backward:
            o.backward(torch.ones_like(o))
        found.append((forward.peak, backward.peak))
    return found


def extra_blocks(ranks, heads, kv_heads, dtype, keep_all=False):
    """How many blocks the ring holds beyond its share, forward and backward, and the same divided by the bar."""
    block = 2 * kv_heads * TOKENS * WIDTH * dtype.itemsize
    by_rank = shardlab.run(peaks, heads, kv_heads, dtype, keep_all, ranks=ranks, timeout=60)
    worst = [max((ring[way] - alone[way]) / block for alone, ring in by_rank) for way in (0, 1)]
    return worst, [max(ring[way] / (alone[way] + 2 * block) for alone, ring in by_rank) for way in (0, 1)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (8, 1)])
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_ring_holds_its_share_and_two_blocks(ranks, heads, kv_heads, dtype):
    """The share is the memory of attention over s/c tokens on a single rank, including its kernel's results."""
    worst, over_bar = extra_blocks(ranks, heads, kv_heads, dtype)
    sizes = {"strips": ring_strips(TOKENS), "bytes_each": dtype.itemsize}
    formula = [extra_kv_blocks("ring", ranks), extra_kv_blocks("ring", ranks, backward=True, **sizes)]
    assert max(over_bar) <= 1.05
    assert all(got <= due + 0.05 for got, due in zip(worst, formula, strict=True)), (worst, formula)
    assert worst[0] == pytest.approx(formula[0], abs=0.05)  # other ranks' blocks do take memory
    if dtype == torch.float32 and ranks == 4:
        assert worst[1] == pytest.approx(formula[1], abs=0.05)


def test_strips_that_stay_when_they_were_sent_would_be_noticed():
    worst, over_bar = extra_blocks(4, 2, 2, torch.float32, keep_all=True)
    assert worst[1] > 2.5 and over_bar[1] > 1.05


@pytest.mark.parametrize("make", [contiguous, zigzag, striped])
@pytest.mark.parametrize("most", [1, 2, 3, 8])
def test_strips_are_all_of_a_block_once(make, most):
    layout = make(96, 4)
    strips = layout.strips(most)
    places = [place for strip in strips for begin, end in strip for place in range(begin, end)]
    assert sorted(places) == list(range(24)) and len(strips) == most
    assert layout.merged(2).strips(5) == layout.merged(2).strips(5)


def test_no_strip_is_empty():
    assert [len(zigzag(8, 4).strips(8)), len(contiguous(8, 4).strips(8)), len(zigzag(16, 4).strips(8))] == [1, 2, 2]
