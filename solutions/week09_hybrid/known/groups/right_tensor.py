"""Different: a tensor of all ranks, its wanted dims last."""

import math

import torch


def groups(axes, sizes):
    names = list(reversed(sizes))
    ranks = torch.arange(math.prod(sizes.values())).reshape([sizes[name] for name in names])
    others = [place for place, name in enumerate(names) if name not in axes]
    wanted = [place for place, name in enumerate(names) if name in axes]
    size = math.prod(sizes[name] for name in axes)
    return ranks.permute(*others, *wanted).reshape(-1, size).tolist()
