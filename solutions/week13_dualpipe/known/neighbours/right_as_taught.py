"""Different: as the page solves it."""

import torch
import torch.distributed as dist


def swap_with_neighbour(activation, gradient, *, group):
    partner = dist.get_rank(group) ^ 1
    receives = [torch.empty_like(activation), torch.empty_like(gradient)]
    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in (activation, gradient)]
    messages += [dist.P2POp(dist.irecv, tensor, group=group, group_peer=partner) for tensor in receives]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return receives[0], receives[1]
