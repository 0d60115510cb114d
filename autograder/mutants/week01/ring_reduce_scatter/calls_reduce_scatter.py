"""Wrong: lets the library do it, the exercise asks for send and receive."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    mine = torch.empty_like(chunks[dist.get_rank(group)])
    dist.reduce_scatter(mine, [chunk.clone() for chunk in chunks], group=group)
    return mine
