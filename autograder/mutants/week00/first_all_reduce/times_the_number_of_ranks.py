"""Wrong: multiplies instead of adding, right only when all ranks hold the same numbers."""

import torch.distributed as dist


def total_of(tensor, *, group):
    dist.barrier(group=group)
    return tensor * dist.get_world_size(group)
