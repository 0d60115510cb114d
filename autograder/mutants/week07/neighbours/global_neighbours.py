"""Wrong: the ranks beside it in the world, right for a group without gaps."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    mine, works = dist.get_rank(), []
    before = None if gradient is None else torch.empty_like(gradient)
    behind = None if activation is None else torch.empty_like(activation)
    for outgoing, incoming, peer in ((activation, behind, mine + 1), (gradient, before, mine - 1)):
        if outgoing is not None:
            works.append(dist.isend(outgoing, dst=peer, group=group))
            works.append(dist.irecv(incoming, src=peer, group=group))
    for work in works:
        work.wait()
    return before, behind
