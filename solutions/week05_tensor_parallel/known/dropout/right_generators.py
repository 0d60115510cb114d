"""Different: two generators, masks by comparison."""

import torch
import torch.distributed as dist


def dropout_steps(x, up, down, p, seed, num_steps, *, group):
    shared = torch.Generator().manual_seed(seed)
    own = torch.Generator().manual_seed(seed + 7919 * (1 + dist.get_rank(group)))

    def dropped(values, generator):
        kept = torch.rand(values.shape, generator=generator) >= p
        return values * kept / (1 - p)

    steps = []
    for _ in range(num_steps):
        hidden = dropped(torch.relu(x @ up), own)
        total = hidden @ down
        dist.all_reduce(total, group=group)
        steps.append((hidden, dropped(total, shared)))
    return steps
