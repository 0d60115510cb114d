"""Wrong: the sum goes up and stays there; the other ranks return what they had."""

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
    return total
