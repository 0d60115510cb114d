"""Wrong: whole tensors go round the ring and are added, right answer and N/2 times the bytes."""

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
    everyone = ring_all_gather(tensor.flatten(), [tensor.numel()] * dist.get_world_size(group), group=group)
    return torch.stack(everyone).sum(0).to(tensor.dtype).view(tensor.shape)
