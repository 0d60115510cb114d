"""Wrong: everybody sends the whole tensor to rank 0 and gets the sum back."""

import torch
import torch.distributed as dist


def ring_all_gather(chunk, sizes, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    gathered = [chunk.new_empty(num) for num in sizes]
    gathered[rank] = chunk.clone()
    for step in range(size - 1):
        sending = dist.isend(gathered[(rank - step) % size], group_dst=(rank + 1) % size, group=group)
        dist.recv(gathered[(rank - 1 - step) % size], group_src=(rank - 1) % size, group=group)
        sending.wait()
    return gathered


def ring_all_reduce(tensor, *, group):
    total, size = tensor.clone(), dist.get_world_size(group)
    if dist.get_rank(group) != 0:
        dist.send(total, group_dst=0, group=group)
        dist.recv(total, group_src=0, group=group)
        return total
    for source in range(1, size):
        part = torch.empty_like(total)
        dist.recv(part, group_src=source, group=group)
        total += part
    for target in range(1, size):
        dist.send(total, group_dst=target, group=group)
    return total
