"""Different: as the page solves it."""

import torch
import torch.distributed as dist


def add_copies(gradients, *, group):
    twin = dist.get_world_size(group) - 1 - dist.get_rank(group)
    received = [torch.empty_like(gradients[1]), torch.empty_like(gradients[0])]
    messages = [dist.P2POp(dist.isend, mine, group=group, group_peer=twin) for mine in gradients]
    messages += [dist.P2POp(dist.irecv, theirs, group=group, group_peer=twin) for theirs in received]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return [gradients[0] + received[1], gradients[1] + received[0]]
