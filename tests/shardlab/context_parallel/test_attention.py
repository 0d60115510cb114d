"""Four ways to reach other ranks' keys, compared with one process: results, gradients, masks, layouts, groups."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.context_parallel.attention import attend
from shardlab.context_parallel.balance import contiguous, own_part, striped, zigzag
from shardlab.context_parallel.gathered import Gathered
from shardlab.context_parallel.mask import CAUSAL, FULL, SMALL, Mask, Tile, halved
from shardlab.context_parallel.online import attend_here
from shardlab.context_parallel.ring import Ring
from shardlab.context_parallel.ulysses import TwoLevel, Ulysses, two_level_groups
from torch.nn import functional

LAYOUTS = {"contiguous": contiguous, "zig-zag": zigzag, "striped": striped}
MASKS = {
    "causal": CAUSAL,
    "full": FULL,
    "documents": Mask(documents=((5, 16, 1, 10),)),
    "documents of each sequence": Mask(documents=((32,), (1, 30, 1), (7, 25))),
    "documents, full": Mask(causal=False, documents=((9, 23),)),
}
BATCH, LENGTH, WIDTH = 3, 32, 8


def inputs(heads, kv_heads, dtype, seed=0):
    """q, k, v and the gradient of the result, for the whole sequence."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(BATCH, number, LENGTH, WIDTH) for number in (heads, kv_heads, kv_heads, heads)]
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def as_booleans(mask):
    """The mask [B, 1, s, s], computed pair by pair without tiles."""
    allowed = torch.zeros(BATCH, 1, LENGTH, LENGTH, dtype=torch.bool)
    for number in range(BATCH):
        lengths = mask.documents[number % len(mask.documents)] if mask.documents else (LENGTH,)
        document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        allowed[number, 0] = document[:, None] == document[None]
    return allowed.tril() if mask.causal else allowed


def one_process(heads, kv_heads, mask, dtype=torch.float32):
    """o, dq, dk, dv of torch's attention over the whole sequence."""
    q, k, v, do = inputs(heads, kv_heads, dtype)
    leaves = [one.requires_grad_() for one in (q, k, v)]
    many = [one.repeat_interleave(heads // kv_heads, 1) for one in (k, v)]
    o = functional.scaled_dot_product_attention(q, *many, attn_mask=as_booleans(mask))
    return [o.detach(), *torch.autograd.grad(o, leaves, do)]


def errors(layout, method, mask, heads, kv_heads, group, dtype=torch.float32, **options):
    """The largest difference of o, dq, dk, dv on this rank, absolute and relative to the largest number."""
    rank = dist.get_rank(group)
    *qkv, do = (own_part(one, layout, rank, dim=2) for one in inputs(heads, kv_heads, dtype))
    leaves = [one.requires_grad_() for one in qkv]
    o = attend(*leaves, layout=layout, group=group, method=method, mask=mask, **options)
    assert o.dtype == dtype
    got = [o.detach(), *torch.autograd.grad(o, leaves, do)]
    due = [own_part(one, layout, rank, dim=2) for one in one_process(heads, kv_heads, mask, torch.float32)]
    return max(
        ((one.float() - other).abs().max() / other.abs().max()).item() for one, other in zip(got, due, strict=True)
    )


def methods(num_ranks, group=None):
    made = {"ring": Ring(), "Ulysses": Ulysses(), "gathered": Gathered()}
    if num_ranks == 4 and group is None:
        inner, outer = two_level_groups([list(range(num_ranks))], 2)
        made["two levels"] = TwoLevel(inner, outer)
    return made


def every_way(heads, kv_heads):
    size = dist.get_world_size()
    return {
        (layout, method, mask): errors(make(LENGTH, size), how, MASKS[mask], heads, kv_heads, None)
        for method, how in methods(size).items()
        for layout, make in LAYOUTS.items()
        for mask in MASKS
    }


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (8, 1), (8, 2)])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_every_layout_method_and_mask_is_one_process(ranks, heads, kv_heads):
    for by_way in shardlab.run(every_way, heads, kv_heads, ranks=ranks, timeout=120):
        assert len(by_way) == (60 if ranks == 4 else 45)
        assert {way: error for way, error in by_way.items() if not error < 1e-5} == {}


def far_from(method_of, group_of, *, heads=8, kv_heads=8, dtype=torch.float32, mask=CAUSAL):
    """Errors of a zig-zag layout in a group of some ranks of the world."""
    group = group_of()
    size = dist.get_world_size(group)
    return errors(zigzag(LENGTH, size), method_of(), mask, heads, kv_heads, group, dtype)


def halves():
    return dist.new_subgroups_by_enumeration([[3, 0], [1, 2]])[0]


def subgroups():
    """Two groups of the world at the same time, with ranks in a different order from the world's."""
    return [far_from(method, halves, mask=MASKS["documents"]) for method in (Ring, Ulysses, Gathered)]


def two_levels_twice():
    """cp 4 in a world of 8: all ranks create the groups of both halves together."""
    members = [[0, 2, 4, 6], [1, 3, 5, 7]]
    group = dist.new_subgroups_by_enumeration(members)[0]
    inner, outer = two_level_groups(members, 2)
    return far_from(lambda: TwoLevel(inner, outer), lambda: group, kv_heads=1)


def eight():
    return [far_from(method, lambda: None, kv_heads=kv) for method in (Ring, Ulysses, Gathered) for kv in (8, 1)]


def test_groups_may_be_any_ranks_of_the_world():
    assert max(max(one) for one in shardlab.run(subgroups, ranks=4, timeout=60)) < 1e-5
    assert max(shardlab.run(two_levels_twice, ranks=8, timeout=120)) < 1e-5


def test_eight_ranks():
    assert max(max(one) for one in shardlab.run(eight, ranks=8, timeout=120)) < 1e-5


def in_bfloat16():
    """Errors of bf16 on all ranks, and of the same kernel on one rank."""
    apart = [far_from(method, lambda: None, dtype=torch.bfloat16) for method in (Ring, Ulysses, Gathered)]
    alone = dist.new_subgroups_by_enumeration([[rank] for rank in range(dist.get_world_size())])[0]
    return apart, errors(zigzag(LENGTH, 1), Ring(), CAUSAL, 8, 8, alone, torch.bfloat16)


def test_bfloat16_is_within_the_kernels_own_error():
    """Sums over blocks are in fp32, so splitting into one block per rank adds no error."""
    for apart, alone in shardlab.run(in_bfloat16, ranks=4, timeout=60):
        assert max(apart) < 2 * alone < 0.03


def test_long_triangles_are_cut_and_all_pairs_stay():
    """Beyond SMALL queries, the pairs and the result stay the same."""
    tile = Tile(slice(None), slice(3, 3 + 700), slice(0, 700), causal=True)
    pieces = list(halved([tile]))
    seen = torch.zeros(703, 700, dtype=torch.int)
    for _, rows, keys, causal in pieces:
        size = rows.stop - rows.start
        part = torch.ones(size, keys.stop - keys.start, dtype=torch.int)
        seen[rows, keys] += part.tril() if causal else part
    assert torch.equal(seen[3:], torch.ones(700, 700, dtype=torch.int).tril()) and len(pieces) > 5
    assert max(rows.stop - rows.start for _, rows, _, causal in pieces if causal) <= SMALL
    q, k, v = torch.randn(3, 1, 2, 700, 16)
    torch.testing.assert_close(
        attend_here(q, k, v, CAUSAL), functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    )
