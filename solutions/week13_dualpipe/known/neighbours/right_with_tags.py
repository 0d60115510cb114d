"""Different: tags that nobody needs, for the order is right too."""

import torch
import torch.distributed as dist


def swap_with_neighbour(activation, gradient, *, group):
    partner = dist.get_rank(group) ^ 1
    receives = [torch.empty_like(activation), torch.empty_like(gradient)]
    works = [dist.isend(one, group=group, group_dst=partner, tag=7 + k) for k, one in enumerate((activation, gradient))]
    works += [dist.irecv(one, group=group, group_src=partner, tag=7 + k) for k, one in enumerate(receives)]
    for work in works:
        work.wait()
    return receives[0], receives[1]
