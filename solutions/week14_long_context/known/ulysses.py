# %% right_as_taught
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


# %% no_gradient of="right_as_taught"
"""Wrong: calls the collective where autograd does not see it: queries and keys get no gradient."""

# -        return exchanged(gradient, join, cut, group), None, None, None
# +        return torch.zeros(1).expand(torch.cat(gradient.chunk(dist.get_world_size(group), join)[:1] * dist.get_world_size(group), cut).shape), None, None, None

# %% backward_as_forward of="right_as_taught"
"""Wrong: the backward exchanges the same way as the forward."""

# -        return exchanged(gradient, join, cut, group), None, None, None
# +        return exchanged(gradient, cut, join, group), None, None, None

# %% mean_in_the_backward of="right_as_taught"
"""Wrong: divides the gradient by the ranks."""

# -        return exchanged(gradient, join, cut, group), None, None, None
# +        return exchanged(gradient, join, cut, group) / dist.get_world_size(group), None, None, None

# %% own_positions_alone of="right_as_taught"
"""Wrong: sends nothing: attention among a rank's own positions."""

# -    q, k, v = (Exchange.apply(one, 1, 2, group) for one in (q, k, v))
# -    o = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
# -    return Exchange.apply(o, 2, 1, group)
# +    return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

# %% gathers_everything of="right_as_taught"
"""Wrong: gathers all heads at all positions on every rank."""

# -    q, k, v = (Exchange.apply(one, 1, 2, group) for one in (q, k, v))
# +    class Gather(torch.autograd.Function):
# +        @staticmethod
# +        def forward(ctx, x):
# +            whole = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(size)]
# +            dist.all_gather(whole, x.contiguous(), group=group)
# +            return torch.cat(whole, 2)
# +
# +        @staticmethod
# +        def backward(ctx, gradient):
# +            total = gradient.contiguous().clone()
# +            dist.all_reduce(total, group=group)
# +            return total.chunk(size, 2)[dist.get_rank(group)]
# +
# +    q, k, v = (Gather.apply(one) for one in (q, k, v))

# -    return Exchange.apply(o, 2, 1, group)
# +    return o.chunk(size, 2)[dist.get_rank(group)]

# %% all_keys_for_all_heads of="right_as_taught"
"""Wrong: repeats shared keys for every head before they travel."""

# -    copies = max(1, size // kv_heads)
# +    copies = heads // kv_heads

# %% few_keys_not_repeated of="right_as_taught"
"""Wrong: refuses fewer key heads than ranks."""

# -    if kv_heads % size and size % kv_heads:
# +    if kv_heads % size:

# %% repeated_in_turn of="right_as_taught"
"""Wrong: repeats shared keys in turn, so that heads meet others' keys.

Not in sight: with one key head, as in sight, both repeat the same; several, and fewer than ranks, are drawn
"""

# -    k, v = k.repeat_interleave(copies, 1), v.repeat_interleave(copies, 1)
# +    k, v = k.repeat(1, copies, 1, 1), v.repeat(1, copies, 1, 1)

# %% no_mask of="right_as_taught"
"""Wrong: every query sees every key."""

# -    o = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
# +    o = scaled_dot_product_attention(q, k, v, enable_gqa=True)

# %% joined_the_wrong_way of="right_as_taught"
"""Wrong: joins what comes along the heads."""

# -    return torch.cat(list(whole), join)
# +    return torch.cat(list(whole), cut).reshape(torch.cat(list(whole), join).shape)

# %% forgets_the_subgroup of="right_as_taught"
"""Wrong: exchanges with the whole world."""

# -    dist.all_to_all_single(whole := torch.stack(came), torch.stack(parts), group=group)
# +    dist.all_to_all_single(whole := torch.stack(came), torch.stack(parts))

# %% output_stays of="right_as_taught"
"""Wrong: returns its heads at all positions."""

# -    return Exchange.apply(o, 2, 1, group)
# +    return o

# %% heads_in_turn of="right_as_taught"
"""Wrong: gives rank r the heads r, r + c, …: not those that share its keys."""

#      k, v = k.repeat_interleave(copies, 1), v.repeat_interleave(copies, 1)
# +    q = q.unflatten(1, (-1, size)).transpose(1, 2).flatten(1, 2)

# %% drops_heads of="right_as_taught"
"""Wrong: leaves over the heads that do not divide."""

# -        raise ValueError(f"{heads} heads over {size} ranks: use a divisor of {heads}")
# +        q = q[:, : heads // size * size]

# %% asserts of="right_as_taught"
"""Wrong: an assertion without a word."""

# -        raise ValueError(f"{heads} heads over {size} ranks: use a divisor of {heads}")
# +        raise AssertionError

# %% key_heads_unchecked of="right_as_taught"
"""Wrong: looks at the heads and not at the key heads."""

# -    if kv_heads % size and size % kv_heads:
# -        raise ValueError(f"{kv_heads} key-value heads over {size} ranks: use a divisor or a multiple")

# %% agrees_first of="right_as_taught"
"""Wrong: asks the others before it refuses."""

#      size, heads, kv_heads = dist.get_world_size(group), q.shape[1], k.shape[1]
# +    dist.all_reduce(torch.tensor([heads]), group=group)

# %% changes_its_input of="right_as_taught"
"""Wrong: scales the gradient in place."""

#  def ulysses_step(q, k, v, gradient, *, group):
# +    gradient.mul_(1 + 1e-6)

# %% borrows_the_answer of="right_as_taught"
"""Wrong: calls the package's own."""

#  import torch.distributed as dist
# +from shardlab.context_parallel import Ulysses, attend, contiguous

# -    q, k, v = (Exchange.apply(one, 1, 2, group) for one in (q, k, v))
# -    o = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
# -    return Exchange.apply(o, 2, 1, group)
# +    layout = contiguous(size * q.shape[2], size)
# +    return attend(q, k, v, layout=layout, group=group, method=Ulysses(), agreed=True)

# %% right_one_message
"""Different: q, k and v in one exchange, forward and backward by hand, autograd for the attention alone."""

import torch
import torch.distributed as dist


def to_heads(tensors, group):
    """Each rank gets its heads of all tensors, at all positions."""
    size = dist.get_world_size(group)
    cut = [one.unflatten(1, (size, -1)).movedim(1, 0) for one in tensors]
    widths = [one.shape[2] for one in cut]
    out = torch.cat(cut, 2).contiguous()
    came = torch.empty_like(out)
    dist.all_to_all_single(came, out, group=group)
    return [one.movedim(0, 2).flatten(2, 3) for one in came.split(widths, 2)]


def to_positions(tensors, group):
    """The way back."""
    size = dist.get_world_size(group)
    widths = [one.shape[1] for one in tensors]
    out = torch.cat(tensors, 1).unflatten(2, (size, -1)).movedim(2, 0).contiguous()
    came = torch.empty_like(out)
    dist.all_to_all_single(came, out, group=group)
    return [one.movedim(0, 1).flatten(1, 2) for one in came.split(widths, 2)]


def ulysses_step(q, k, v, gradient, *, group):
    size, few = dist.get_world_size(group), k.size(1)
    for what, number, fits in (
        ("heads", q.size(1), q.size(1) % size == 0),
        ("key-value heads", few, few % size == 0 or size % few == 0),
    ):
        if not fits:
            raise ValueError(f"cannot give {number} {what} to {size} ranks")
    repeats = -(-size // few)
    wide = [one.unsqueeze(2).expand(-1, -1, repeats, -1, -1).flatten(1, 2) for one in (k, v)]
    leaves = [one.clone().requires_grad_() for one in to_heads([q, *wide], group)]
    shared = leaves[0].size(1) // leaves[1].size(1)
    keys, values = (one.repeat_interleave(shared, 1) for one in leaves[1:])
    scores = leaves[0] @ keys.mT * q.size(-1) ** -0.5
    seen = torch.ones(scores.shape[-2:]).tril().bool()
    o = scores.where(seen, float("-inf")).softmax(-1) @ values
    (wanted,) = to_heads([gradient], group)
    found = to_positions(list(torch.autograd.grad(o, leaves, wanted)), group)
    dk, dv = (one.unflatten(1, (few, repeats)).sum(2) for one in found[1:])
    return to_positions([o.detach()], group)[0], found[0], dk, dv


# %% copies_averaged of="right_one_message"
"""Wrong: the copies of a key head give the mean of their gradients."""

# -    dk, dv = (one.unflatten(1, (few, repeats)).sum(2) for one in found[1:])
# +    dk, dv = (one.unflatten(1, (few, repeats)).mean(2) for one in found[1:])

# %% one_copy of="right_one_message"
"""Wrong: the first copy of a key head gives its gradient alone."""

# -    dk, dv = (one.unflatten(1, (few, repeats)).sum(2) for one in found[1:])
# +    dk, dv = (one.unflatten(1, (few, repeats))[:, :, 0] for one in found[1:])
