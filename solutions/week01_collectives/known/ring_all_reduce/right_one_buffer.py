"""Different: the all-gather receives straight into slices of the finished tensor."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    partial = chunks[(rank - 1) % size].clone()
    for step in range(size - 1):
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.empty_like(mine)
        sending = dist.isend(partial, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        partial = incoming + mine
    return partial


def ring_all_gather(chunk, sizes, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    places = chunk.new_empty(sum(sizes)).split(list(sizes))
    places[rank].copy_(chunk)
    for step in range(size - 1):
        receiving = dist.irecv(places[(rank - 1 - step) % size], group_src=(rank - 1) % size, group=group)
        dist.isend(places[(rank - step) % size], group_dst=(rank + 1) % size, group=group).wait()
        receiving.wait()
    return list(places)


def ring_all_reduce(tensor, *, group):
    flat = tensor.reshape(-1)
    sizes = [len(chunk) for chunk in flat.tensor_split(dist.get_world_size(group))]
    finished = ring_reduce_scatter(flat.split(sizes), group=group)
    return torch.cat(ring_all_gather(finished, sizes, group=group)).reshape_as(tensor)
