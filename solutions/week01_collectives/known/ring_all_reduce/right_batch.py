"""Different: both rings in one function, every step a batch_isend_irecv."""

import torch
import torch.distributed as dist


def pass_on(outgoing, incoming, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    messages = [
        dist.P2POp(dist.isend, outgoing, group=group, group_peer=(rank + 1) % size),
        dist.P2POp(dist.irecv, incoming, group=group, group_peer=(rank - 1) % size),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()


def ring_all_gather(chunk, sizes, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    gathered = [torch.zeros(num, dtype=chunk.dtype) for num in sizes]
    gathered[rank].copy_(chunk)
    for step in range(size - 1):
        pass_on(gathered[rank - step], gathered[rank - step - 1], group)
    return gathered


def ring_all_reduce(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    chunks = list(tensor.flatten().clone().tensor_split(size))
    for step in range(1, size):
        incoming = torch.empty_like(chunks[rank - 1 - step])
        pass_on(chunks[rank - step], incoming, group)
        chunks[rank - 1 - step] += incoming
    gathered = ring_all_gather(chunks[rank], [chunk.numel() for chunk in chunks], group=group)
    return torch.cat(gathered).reshape(tensor.shape)
