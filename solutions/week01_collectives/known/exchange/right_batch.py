"""Different: hands both messages over at once with batch_isend_irecv."""

import torch
import torch.distributed as dist


def exchange(tensor, *, group):
    partner = dist.get_rank(group) ^ 1
    received = torch.zeros_like(tensor)
    messages = [
        dist.P2POp(dist.irecv, received, group=group, group_peer=partner),
        dist.P2POp(dist.isend, tensor, group=group, group_peer=partner),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return received
