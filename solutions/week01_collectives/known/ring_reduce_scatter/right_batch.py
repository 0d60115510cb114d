"""Different: every step is one batch_isend_irecv."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    partial = chunks[(rank - 1) % size].clone()
    for step in range(1, size):
        mine = chunks[(rank - 1 - step) % size]
        incoming = torch.empty_like(mine)
        messages = [
            dist.P2POp(dist.isend, partial, group=group, group_peer=(rank + 1) % size),
            dist.P2POp(dist.irecv, incoming, group=group, group_peer=(rank - 1) % size),
        ]
        for work in dist.batch_isend_irecv(messages):
            work.wait()
        partial = mine + incoming
    return partial
