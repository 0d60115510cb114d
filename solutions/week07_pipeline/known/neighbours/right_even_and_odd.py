"""Different: blocking calls only, even ranks send first and odd ranks receive first."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    like = gradient if activation is None else activation
    received = [None if rank == 0 else torch.empty_like(like), None if rank == last else torch.empty_like(like)]

    for is_even_pair in (True, False):  # pairs (0, 1), (2, 3), ..., then (1, 2), (3, 4), ...
        goes_right = (rank % 2 == 0) == is_even_pair
        if goes_right and rank < last:
            dist.send(activation, group_dst=rank + 1, group=group)
            dist.recv(received[1], group_src=rank + 1, group=group)
        if not goes_right and rank > 0:
            dist.recv(received[0], group_src=rank - 1, group=group)
            dist.send(gradient, group_dst=rank - 1, group=group)
    return received
