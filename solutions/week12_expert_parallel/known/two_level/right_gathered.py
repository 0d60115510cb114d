"""Different: inside the node all copies are gathered and each rank adds what its experts give; backward by hand."""

import torch
import torch.distributed as dist
from torch.nn.functional import gelu


def to_ranks(x, sent, received, group):
    came = x.new_empty(sum(received), *x.shape[1:])
    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
    return came


def on_node(x, group):
    """All ranks' rows, and how many they are."""
    size = dist.get_world_size(group)
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(x)]), group=group)
    lengths = [int(one) for one in lengths]
    padded = x.new_zeros(max(1, *lengths), *x.shape[1:])
    padded[: len(x)] = x
    whole = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(whole, padded, group=group)
    return torch.cat([one[:n] for one, n in zip(whole, lengths, strict=True)]), lengths


def two_level_step(x, experts, weights, up, down, gradient, *, across, inside):
    own, size = len(up), dist.get_world_size(inside)
    num_nodes, per_node = dist.get_world_size(across), own * dist.get_world_size(inside)
    wanted = (experts.unsqueeze(0) // per_node == torch.arange(num_nodes)[:, None, None]).any(2)
    token = wanted.nonzero()[:, 1]
    counts = wanted.sum(1)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts, group=across)
    out, came = (counts.tolist(), theirs.tolist(), across), (theirs.tolist(), counts.tolist(), across)
    copies = to_ranks(x[token], *out)
    chosen, scales = to_ranks(experts[token].int(), *out).long(), to_ranks(weights[token], *out)

    first = (dist.get_rank(across) * size + dist.get_rank(inside)) * own
    rows, lengths = on_node(copies, inside)
    leaves = [one.requires_grad_() for one in (rows, on_node(scales, inside)[0])]
    whose = on_node(chosen, inside)[0] - first
    mine = (whose >= 0) & (whose < own)
    at = whose.clamp(0, own - 1)
    inner = gelu(torch.einsum("mh,mkhf->mkf", leaves[0], up[at]))
    results = torch.einsum("mkf,mkfh,mk->mh", inner, down[at], leaves[1] * mine)
    total = results.detach().clone()
    dist.all_reduce(total, group=inside)
    home = to_ranks(total.split(lengths)[dist.get_rank(inside)], *came)
    y = torch.zeros_like(x).index_add_(0, token, home)

    of_results = on_node(to_ranks(gradient[token], *out), inside)[0]
    found = torch.autograd.grad(results, leaves, of_results)
    back = []
    for partial, like in zip(found, (x, weights), strict=True):
        one = partial.contiguous()
        dist.all_reduce(one, group=inside)
        own_rows = to_ranks(one.split(lengths)[dist.get_rank(inside)], *came)
        back.append(torch.zeros_like(like).index_add_(0, token, own_rows))
    return y, *back
