"""Different: copies all chunks, turned round so that its own comes last, and adds into the copies."""

from itertools import pairwise

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    turned = [chunks[(rank - 1 - position) % size].clone() for position in range(size)]
    for outgoing, total in pairwise(turned):
        incoming = torch.empty_like(total)
        sending = dist.isend(outgoing, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        total.add_(incoming)
    return turned[-1]
