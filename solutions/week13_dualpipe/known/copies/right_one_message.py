"""Different: both gradients in one message."""

import torch
import torch.distributed as dist


def add_copies(gradients, *, group):
    twin = dist.get_world_size(group) - 1 - dist.get_rank(group)
    mine = torch.cat([gradients[0], gradients[1]])
    theirs = torch.empty_like(mine)
    sending = dist.isend(mine, group_dst=twin, group=group)
    dist.recv(theirs, group_src=twin, group=group)
    sending.wait()
    second, first = theirs.split([len(gradients[1]), len(gradients[0])])
    return gradients[0] + first, gradients[1] + second
