"""Wrong: addresses global ranks in the world, right only when the group is the world."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    like = gradient if activation is None else activation
    received = [None if rank == 0 else torch.empty_like(like), None if rank == last else torch.empty_like(like)]

    works = []
    if rank < last:
        works.append(dist.isend(activation, dst=rank + 1))
        works.append(dist.irecv(received[1], src=rank + 1))
    if rank > 0:
        works.append(dist.isend(gradient, dst=rank - 1))
        works.append(dist.irecv(received[0], src=rank - 1))
    for work in works:
        work.wait()
    return tuple(received)
