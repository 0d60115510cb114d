"""Wrong: runs of ranks, whatever the axis."""

import torch.distributed as dist


def sum_on_each_axis(number, sizes):
    sums, world = {}, dist.get_world_size()
    for name, size in sizes.items():
        for begin in range(0, world, size):
            members = list(range(begin, begin + size))
            made = dist.new_group(members)
            if dist.get_rank() in members:
                sums[name] = number.clone()
                dist.all_reduce(sums[name], group=made)
    return sums
