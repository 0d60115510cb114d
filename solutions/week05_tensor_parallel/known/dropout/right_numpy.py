"""Different: NumPy's generators, one for every region and rank."""

import numpy as np
import torch
import torch.distributed as dist


def dropout_steps(x, up, down, p, seed, num_steps, *, group):
    streams = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1 + dist.get_rank(group)])

    def mask(shape, stream):
        return torch.from_numpy((stream.random(tuple(shape)) > p) / (1 - p)).float()

    steps = []
    for _ in range(num_steps):
        hidden = (x @ up).clamp(min=0)
        hidden = hidden * mask(hidden.shape, streams[1])
        output = (hidden @ down).contiguous()
        dist.all_reduce(output, group=group)
        steps.append([hidden, output * mask(output.shape, streams[0])])
    return tuple(steps)
