"""Wrong: receives into the tensor that it was given."""

import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    works = []
    if rank < last:
        works.append(dist.isend(activation.clone(), group_dst=rank + 1, group=group))
        works.append(dist.irecv(activation, group_src=rank + 1, group=group))
    if rank > 0:
        works.append(dist.isend(gradient.clone(), group_dst=rank - 1, group=group))
        works.append(dist.irecv(gradient, group_src=rank - 1, group=group))
    for work in works:
        work.wait()
    return gradient, activation
