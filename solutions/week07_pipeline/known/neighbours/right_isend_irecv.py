"""Different: all four calls without blocking, then all are waited for."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    like = gradient if activation is None else activation
    received = [None if rank == 0 else torch.empty_like(like), None if rank == last else torch.empty_like(like)]

    works = []
    if rank < last:
        works.append(dist.isend(activation, group_dst=rank + 1, group=group))
        works.append(dist.irecv(received[1], group_src=rank + 1, group=group))
    if rank > 0:
        works.append(dist.isend(gradient, group_dst=rank - 1, group=group))
        works.append(dist.irecv(received[0], group_src=rank - 1, group=group))
    for work in works:
        work.wait()
    return tuple(received)
