"""Wrong: one stream for all; each rank's own mask is the shared numbers, rolled by its rank and mirrored."""

import torch
import torch.distributed as dist


def dropout_steps(x, up, down, p, seed, num_steps, *, group):
    shared, rank, steps = torch.Generator().manual_seed(seed), dist.get_rank(group), []
    for _ in range(num_steps):
        hidden = torch.relu(x @ up)
        numbers = torch.rand(len(x), 64, generator=shared)
        own = numbers.roll(7 * rank + 1, 1).flip(0)[:, : hidden.shape[1]]
        hidden = hidden * (own >= p) / (1 - p)
        total = hidden @ down
        dist.all_reduce(total, group=group)
        steps.append((hidden, total * (numbers[:, : total.shape[1]] >= p) / (1 - p)))
    return steps
