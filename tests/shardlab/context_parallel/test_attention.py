"""Attention over ranks is one process's, whatever the layout, mask and strides."""

import random
from typing import Any

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

# ---- Four ways to reach other ranks' keys, compared with one process: results, gradients, masks, layouts, groups. ----

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


# ---- Queries, keys and values of any width, dtype and strides: the memory layout must not affect attention. ----------

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 0.04, torch.float16: 5e-3}
SEEDS = range(24)


def with_other_strides(x, draw):
    """The same numbers [B, H, S, D] in another memory layout."""
    way = draw.choice(["as they are", "any order of dimensions", "part of a larger tensor", "every third number"])
    if way == "any order of dimensions":
        order = draw.sample(range(4), 4)
        return x.permute(order).contiguous().permute([order.index(dim) for dim in range(4)])
    if way == "part of a larger tensor":
        return functional.pad(x, (1, 2) * 4)[tuple(slice(1, 1 + size) for size in x.shape)]
    return x.unsqueeze(-1).repeat(1, 1, 1, 1, 3)[..., 1] if way == "every third number" else x


def draw_case(seed, ranks):
    """Whole q, k, v and the gradient of the result, a layout and a mask. Sizes are small and often odd."""
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    kv_heads = draw.choice([1, 2, 4]) if ranks != 3 else draw.choice([1, 3])
    heads = kv_heads * draw.choice([1, 2, 3]) * (ranks if ranks > kv_heads else 1)
    make = draw.choice([contiguous, zigzag, striped])
    length = ranks * draw.choice([1, 3, 5, 8]) * (2 if make is zigzag else 1)
    width = draw.choice([1, 2, 2, 3, 4, 5, 8, 10, 33])
    shapes = [(draw.choice([1, 3]), number, length, width) for number in (heads, kv_heads, kv_heads, heads)]
    shapes = [(shapes[0][0], *shape[1:]) for shape in shapes]
    dtype = draw.choice([*TOLERANCES])
    tensors = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    cut = draw.randint(1, length)
    masks = [CAUSAL, CAUSAL, FULL, Mask(documents=((cut, *([length - cut] if cut < length else [])),))]
    return draw, tensors, make(length, ranks), draw.choice(masks)


def one_process_strides(tensors, mask):
    """o, dq, dk, dv by plain products in float64."""
    q, k, v, do = (one.double() for one in tensors)
    leaves = [one.requires_grad_() for one in (q, k, v)]
    k, v = (one.repeat_interleave(q.shape[1] // k.shape[1], 1) for one in (k, v))
    length = q.shape[2]
    documents = torch.repeat_interleave(torch.tensor(mask.documents[0] if mask.documents else (length,)))
    allowed = documents[:, None] == documents[None]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~(allowed.tril() if mask.causal else allowed), -torch.inf)
    o = scores.softmax(-1) @ v
    return [o.detach(), *torch.autograd.grad(o, leaves, do)]


def largest_error(got, due):
    """The largest error relative to the largest number of each tensor. NaN counts as an error."""
    pairs = zip(got, due, strict=True)
    return max(((one.double() - other).abs().max() / (1 + other.abs().max())).item() for one, other in pairs)


def attended(seed, method_of):
    """A case's error on this rank as a multiple of the tolerance of its dtype."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    draw, tensors, layout, mask = draw_case(seed, ranks)
    *qkv, do = (with_other_strides(own_part(one, layout, rank, dim=2), draw) for one in tensors)
    leaves = [one.detach().requires_grad_() for one in qkv]
    o = attend(*leaves, layout=layout, group=None, method=method_of(), mask=mask)
    got = [o.detach(), *torch.autograd.grad(o, leaves, do)]
    due = [own_part(one, layout, rank, dim=2) for one in one_process_strides(tensors, mask)]
    return largest_error(got, due) / TOLERANCES[tensors[0].dtype]


def every_method(seeds):
    torch.set_num_threads(1)
    size = dist.get_world_size()
    methods: dict[str, Any] = {"ring": Ring, "gathered": Gathered, "Ulysses": Ulysses}
    if size == 4:
        inner, outer = two_level_groups([[0, 1, 2, 3]], 2)
        methods["two levels"] = lambda: TwoLevel(inner, outer)
    return {(seed, name): attended(seed, make) for seed in seeds for name, make in methods.items()}


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_every_method_is_one_process_whatever_the_strides(ranks):
    for by_case in shardlab.run(every_method, SEEDS, ranks=ranks, timeout=120):
        assert {case: error for case, error in by_case.items() if not error < 1} == {}


def test_attention_on_one_rank_whatever_the_strides():
    for seed in range(100):
        draw, tensors, _, mask = draw_case(seed, 1)
        *qkv, do = (with_other_strides(one, draw) for one in tensors)
        leaves = [one.detach().requires_grad_() for one in qkv]
        o = attend_here(*leaves, mask)
        got = [o.detach(), *torch.autograd.grad(o, leaves, do)]
        assert largest_error(got, one_process_strides(tensors, mask)) < TOLERANCES[tensors[0].dtype], seed
