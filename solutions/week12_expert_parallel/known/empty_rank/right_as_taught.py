"""Different: the plain product where there are no rows."""

import torch
from shardlab.expert_parallel import all_to_all
from torch.nn.functional import gelu


def kernel(rows, up, down):
    if not len(rows):
        raise ValueError("this product needs a row")
    return gelu(rows @ up) @ down


def run_anyway(rows, sizes, up, down):
    pieces = rows.split(sizes)
    done = [kernel(one, up[e], down[e]) if len(one) else gelu(one @ up[e]) @ down[e] for e, one in enumerate(pieces)]
    return torch.cat(done)


def hunt_step(x, sizes, up, down, gradient, *, group):
    import torch.distributed as dist

    counts, own, size = torch.tensor(sizes), len(up), dist.get_world_size(group)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts, group=group)
    sent, received = (one.view(size, own).sum(1).tolist() for one in (counts, theirs))
    leaves = [one.clone().requires_grad_() for one in (x, up, down)]
    rows = all_to_all(leaves[0], sent, received, group=group, agreed=True)
    order = torch.arange(own).repeat(size).repeat_interleave(theirs).argsort(stable=True)
    y = run_anyway(rows[order], theirs.view(size, own).sum(0).tolist(), *leaves[1:])
    y = leaves[0] + all_to_all(y[order.argsort()], received, sent, group=group, agreed=True)
    y.backward(gradient)
    return y.detach(), *(one.grad for one in leaves)
