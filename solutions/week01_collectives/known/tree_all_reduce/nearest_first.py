"""Wrong: the total goes to the nearest first, so that the rank with the most to pass on waits longest."""

import torch
import torch.distributed as dist


def tree_all_reduce(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    total, arriving = tensor.clone(), torch.empty_like(tensor)
    distances = [2**level for level in range((size - 1).bit_length())]
    for distance in distances:
        if rank % (2 * distance) == distance:
            dist.send(total, group_dst=rank - distance, group=group)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            dist.recv(arriving, group_src=rank + distance, group=group)
            total += arriving
    if rank != 0:
        dist.recv(total, group_src=rank & (rank - 1), group=group)
    for distance in distances[:]:
        if rank % (2 * distance) == 0 and rank + distance < size:
            dist.send(total, group_dst=rank + distance, group=group)
    return total
