"""Different: one Function that is told along which dimensions, lists of parts."""

import torch
import torch.distributed as dist
from torch.nn.functional import scaled_dot_product_attention


def exchanged(x, cut, join, group):
    parts = [part.contiguous() for part in x.chunk(dist.get_world_size(group), cut)]
    came = [torch.empty_like(part) for part in parts]
    dist.all_to_all_single(whole := torch.stack(came), torch.stack(parts), group=group)
    return torch.cat(list(whole), join)


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cut, join, group):
        ctx.way = cut, join, group
        return exchanged(x, cut, join, group)

    @staticmethod
    def backward(ctx, gradient):
        cut, join, group = ctx.way
        return exchanged(gradient, join, cut, group), None, None, None


def ulysses_attention(q, k, v, *, group):
    size, heads, kv_heads = dist.get_world_size(group), q.shape[1], k.shape[1]
    if heads % size:
        raise ValueError(f"{heads} heads over {size} ranks: use a divisor of {heads}")
    if kv_heads % size and size % kv_heads:
        raise ValueError(f"{kv_heads} key-value heads over {size} ranks: use a divisor or a multiple")
    copies = max(1, size // kv_heads)
    k, v = k.repeat_interleave(copies, 1), v.repeat_interleave(copies, 1)
    q, k, v = (Exchange.apply(one, 1, 2, group) for one in (q, k, v))
    o = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return Exchange.apply(o, 2, 1, group)


def ulysses_step(q, k, v, gradient, *, group):
    leaves = [one.clone().requires_grad_() for one in (q, k, v)]
    o = ulysses_attention(*leaves, group=group)
    return o.detach(), *torch.autograd.grad(o, leaves, gradient)
