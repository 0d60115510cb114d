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
