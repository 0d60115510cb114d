"""Wrong: overwrites the buffer that is still being sent."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    buffer = torch.empty(max(chunk.numel() for chunk in chunks), dtype=chunks[0].dtype)
    partial = buffer[: chunks[rank - 1].numel()].copy_(chunks[rank - 1])
    for step in range(size - 1):
        mine = chunks[(rank - 2 - step) % size]
        sending = dist.isend(partial, group_dst=(rank + 1) % size, group=group)
        partial = buffer[: mine.numel()].copy_(mine)
        incoming = torch.empty_like(mine)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        partial += incoming
    return partial.clone()
