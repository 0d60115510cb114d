"""Different: the all-reduce across nodes is written out as its two halves."""

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
    gathered = [chunk.new_empty(num) for num in sizes]
    gathered[rank] = chunk.clone()
    for step in range(size - 1):
        sending = dist.isend(gathered[(rank - step) % size], group_dst=(rank + 1) % size, group=group)
        dist.recv(gathered[(rank - 1 - step) % size], group_src=(rank - 1) % size, group=group)
        sending.wait()
    return gathered


def hierarchical_all_reduce(tensor, *, node_group, cross_group):
    chunks = tensor.reshape(-1).tensor_split(dist.get_world_size(node_group))
    mine = ring_reduce_scatter(chunks, group=node_group)
    pieces = mine.tensor_split(dist.get_world_size(cross_group))
    piece = ring_reduce_scatter(pieces, group=cross_group)
    mine = torch.cat(ring_all_gather(piece, [len(part) for part in pieces], group=cross_group))
    return torch.cat(ring_all_gather(mine, [len(chunk) for chunk in chunks], group=node_group)).reshape_as(tensor)
