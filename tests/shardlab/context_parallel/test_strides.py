"""Queries, keys and values of any width, dtype and strides: the memory layout must not affect attention."""

import random
from typing import Any

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.context_parallel.attention import attend
from shardlab.context_parallel.balance import contiguous, own_part, striped, zigzag
from shardlab.context_parallel.gathered import Gathered
from shardlab.context_parallel.mask import CAUSAL, FULL, Mask
from shardlab.context_parallel.online import attend_here
from shardlab.context_parallel.ring import Ring
from shardlab.context_parallel.ulysses import TwoLevel, Ulysses, two_level_groups
from torch.nn import functional

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


def one_process(tensors, mask):
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
    due = [own_part(one, layout, rank, dim=2) for one in one_process(tensors, mask)]
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
        assert largest_error(got, one_process(tensors, mask)) < TOLERANCES[tensors[0].dtype], seed
