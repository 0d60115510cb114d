"""Wrong: gathers everybody's tensors and picks two, right answer and far too many bytes."""

import torch
import torch.distributed as dist


def exchange_with_neighbours(activation, gradient, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    like = gradient if activation is None else activation
    both = torch.stack([like if activation is None else activation, like if gradient is None else gradient])
    everyone = [torch.empty_like(both) for _ in range(size)]
    dist.all_gather(everyone, both, group=group)
    before = everyone[rank - 1][0].clone() if rank else None
    return before, everyone[rank + 1][1].clone() if rank < size - 1 else None
