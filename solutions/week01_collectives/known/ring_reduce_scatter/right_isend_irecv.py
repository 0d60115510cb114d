"""Different: isend and irecv into two buffers that take turns."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    outgoing = torch.clone(chunks[left])
    for index in ((left - 1 - step) % size for step in range(size - 1)):
        incoming = torch.zeros_like(chunks[index])
        receiving = dist.irecv(incoming, group_src=left, group=group)
        sending = dist.isend(outgoing, group_dst=right, group=group)
        receiving.wait()
        sending.wait()
        incoming.add_(chunks[index])
        outgoing = incoming
    return outgoing
