"""Wrong: a ring, each rank gets its left neighbour's tensor, right for 2 ranks only."""

import torch
import torch.distributed as dist


def exchange(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    received = torch.empty_like(tensor)
    sending = dist.isend(tensor, group_dst=(rank + 1) % size, group=group)
    dist.recv(received, group_src=(rank - 1) % size, group=group)
    sending.wait()
    return received
