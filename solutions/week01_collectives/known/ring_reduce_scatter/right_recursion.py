"""Different: a step calls the next one instead of a loop."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)

    def pass_on(partial, index):
        if index == rank:
            return partial
        mine = chunks[(index - 1) % size]
        incoming = torch.empty_like(mine)
        sending = dist.isend(partial, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        return pass_on(incoming + mine, (index - 1) % size)

    first = (rank - 1) % size
    return pass_on(chunks[first].clone(), first)
