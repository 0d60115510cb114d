"""Different: receives from all children at once, and sends to all of them before it waits."""

import torch
import torch.distributed as dist


def tree_all_reduce(tensor, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    distances = [2**level for level in range(size.bit_length()) if 2**level < size]
    parent = [rank - d for d in distances if rank % (2 * d) == d]
    children = [rank + d for d in distances if rank % (2 * d) == 0 and rank + d < size]
    parts = [torch.empty_like(tensor) for _ in children]
    receiving = [dist.irecv(part, group_src=child, group=group) for part, child in zip(parts, children, strict=True)]
    for work in receiving:
        work.wait()
    total = sum(parts, start=tensor.clone())
    for up in parent:
        dist.isend(total, group_dst=up, group=group).wait()
        total = torch.empty_like(total)
        dist.irecv(total, group_src=up, group=group).wait()
    for work in [dist.isend(total, group_dst=child, group=group) for child in reversed(children)]:
        work.wait()
    return total
