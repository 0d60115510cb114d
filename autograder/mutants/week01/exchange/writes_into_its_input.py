"""Wrong: receives into the caller's tensor."""

import torch.distributed as dist


def exchange(tensor, *, group):
    partner = dist.get_rank(group) ^ 1
    sending = dist.isend(tensor.clone(), group_dst=partner, group=group)
    dist.recv(tensor, group_src=partner, group=group)
    sending.wait()
    return tensor
