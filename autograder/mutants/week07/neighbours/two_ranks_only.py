"""Wrong: even ranks talk to the right and odd ranks to the left, nobody else."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank = dist.get_rank(group)
    if rank % 2 == 0:
        behind = torch.empty_like(activation)
        dist.send(activation, group_dst=rank + 1, group=group)
        dist.recv(behind, group_src=rank + 1, group=group)
        return None, behind
    before = torch.empty_like(gradient)
    dist.recv(before, group_src=rank - 1, group=group)
    dist.send(gradient, group_dst=rank - 1, group=group)
    return before, None
