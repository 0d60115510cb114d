"""Wrong: each pair in turn, but both sides of it send first."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    like = gradient if activation is None else activation
    received = [None if rank == 0 else torch.empty_like(like), None if rank == last else torch.empty_like(like)]

    for left in range(last):
        if rank == left:
            dist.send(activation, group_dst=left + 1, group=group)
            dist.recv(received[1], group_src=left + 1, group=group)
        elif rank == left + 1:
            dist.send(gradient, group_dst=left, group=group)
            dist.recv(received[0], group_src=left, group=group)
    return tuple(received)
