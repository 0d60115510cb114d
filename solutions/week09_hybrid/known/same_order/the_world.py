"""Wrong: sums over the world on every axis."""

import torch.distributed as dist


def sum_on_each_axis(number, sizes):
    sums = {}
    for name in sizes:
        sums[name] = number.clone()
        dist.all_reduce(sums[name])
    return sums
