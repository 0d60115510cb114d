"""Wrong: addresses global ranks in the world, right only when the group is the world."""

import torch
import torch.distributed as dist


def exchange(tensor, *, group):
    partner = dist.get_rank() ^ 1
    received = torch.empty_like(tensor)
    sending = dist.isend(tensor, dst=partner)
    dist.recv(received, src=partner)
    sending.wait()
    return received
