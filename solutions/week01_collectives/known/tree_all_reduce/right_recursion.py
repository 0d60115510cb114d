"""Different: one level is an exchange with a partner, and the rest of the tree lies inside of it."""

import torch
import torch.distributed as dist


def tree_all_reduce(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)

    def reduced(total, distance):
        if distance >= size:
            return total
        if rank % (2 * distance) == distance:
            dist.send(total, group_dst=rank - distance, group=group)
            dist.recv(total, group_src=rank - distance, group=group)
            return total
        if rank + distance >= size:
            return reduced(total, 2 * distance)
        arriving = torch.empty_like(total)
        dist.recv(arriving, group_src=rank + distance, group=group)
        total = reduced(total + arriving, 2 * distance)
        dist.send(total, group_dst=rank + distance, group=group)
        return total

    return reduced(tensor.clone(), 1)
