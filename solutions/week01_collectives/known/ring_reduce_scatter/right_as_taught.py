"""Different: as the page solves it."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    partial = chunks[(rank - 1) % size].clone()
    for step in range(size - 1):
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.empty_like(mine)
        sending = dist.isend(partial, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        partial = incoming + mine
    return partial
