"""Different: blocking calls, activations sweep to the right and then gradients to the left."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    like = gradient if activation is None else activation
    received = [None if rank == 0 else torch.empty_like(like), None if rank == last else torch.empty_like(like)]

    if rank > 0:
        dist.recv(received[0], group_src=rank - 1, group=group)
    if rank < last:
        dist.send(activation, group_dst=rank + 1, group=group)
        dist.recv(received[1], group_src=rank + 1, group=group)
    if rank > 0:
        dist.send(gradient, group_dst=rank - 1, group=group)
    return tuple(received)
