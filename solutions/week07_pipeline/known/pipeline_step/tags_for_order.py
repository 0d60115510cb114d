"""Wrong: backwards in another order on each rank, which only tags make right; NCCL ignores them."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


def pipeline_step(weight, microbatches, targets, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    weight, alive, loss, works = weight.clone().requires_grad_(), [], None, []
    for tag, given in enumerate(microbatches):
        x = given if rank == 0 else torch.empty_like(given)
        if rank > 0:
            dist.recv(x, group_src=rank - 1, group=group, tag=tag)
        y = torch.tanh(x.requires_grad_(rank > 0) @ weight)
        alive.append((tag, x, y))
        if rank < last:
            dist.send(y.detach(), group_dst=rank + 1, group=group, tag=tag)
    for tag, x, y in alive if rank % 2 == 0 else reversed(alive):
        if rank < last:
            gradient = torch.empty_like(y)
            dist.recv(gradient, group_src=rank + 1, group=group, tag=tag)
            y.backward(gradient)
        else:
            part = mse_loss(y, targets[tag]) * len(y) / sum(map(len, targets))
            loss = part.detach() + (0 if loss is None else loss)
            part.backward()
        if rank > 0:
            works.append(dist.isend(x.grad, group_dst=rank - 1, group=group, tag=tag))
    for work in works:
        work.wait()
    return loss, weight.grad
