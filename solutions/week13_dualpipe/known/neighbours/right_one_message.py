"""Different: both in one message."""

import torch
import torch.distributed as dist


def swap_with_neighbour(activation, gradient, *, group):
    partner = dist.get_rank(group) ^ 1
    both = torch.stack([activation, gradient])
    theirs = torch.empty_like(both)
    sending = dist.isend(both, group_dst=partner, group=group)
    dist.recv(theirs, group_src=partner, group=group)
    sending.wait()
    return theirs[0].clone(), theirs[1].clone()
