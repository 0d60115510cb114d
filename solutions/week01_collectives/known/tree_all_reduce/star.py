"""Wrong: everybody sends to the first rank, which adds and sends to everybody: as many messages, N-1 steps each way."""

import torch
import torch.distributed as dist


def tree_all_reduce(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    total, arriving = tensor.clone(), torch.empty_like(tensor)
    if rank != 0:
        dist.send(total, group_dst=0, group=group)
        dist.recv(total, group_src=0, group=group)
        return total
    for source in range(1, size):
        dist.recv(arriving, group_src=source, group=group)
        total += arriving
    for target in reversed(range(1, size)):
        dist.send(total, group_dst=target, group=group)
    return total
