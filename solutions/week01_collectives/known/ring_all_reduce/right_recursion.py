"""Different: the all-gather hands a chunk on by calling itself."""

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

    def hand_on(outgoing, index, found):
        if len(found) == size:
            return found
        left = (index - 1) % size
        incoming = outgoing.new_empty(sizes[left])
        sending = dist.isend(outgoing, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        return hand_on(incoming, left, found | {left: incoming})

    found = hand_on(chunk, rank, {rank: chunk.clone()})
    return [found[index] for index in range(size)]


def ring_all_reduce(tensor, *, group):
    chunks = tensor.flatten().tensor_split(dist.get_world_size(group))
    finished = ring_reduce_scatter(chunks, group=group)
    gathered = ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=group)
    return torch.cat(gathered).view(tensor.shape)
