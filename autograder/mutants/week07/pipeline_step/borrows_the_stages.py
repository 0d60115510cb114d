"""Wrong: takes the package's own stages, which are not there while this is checked."""

import torch
import torch.distributed as dist
from shardlab.pipeline_parallel.execution import execute
from torch.nn.functional import mse_loss


def pipeline_step(weight, microbatches, targets, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    weight, num_rows = weight.clone().requires_grad_(), sum(len(target) for target in targets)
    alive, total, _ = [], 0.0, execute
    for given in microbatches:
        x = given if rank == 0 else torch.empty_like(given)
        if rank > 0:
            dist.recv(x, group_src=rank - 1, group=group)
            x.requires_grad_()
        y = torch.tanh(x @ weight)
        alive.append((x, y))
        if rank < last:
            dist.send(y.detach(), group_dst=rank + 1, group=group)
    for (x, y), target in zip(alive, targets, strict=True):
        if rank == last:
            loss = mse_loss(y, target) * len(target) / num_rows
            loss.backward()
            total += loss.detach()
        else:
            gradient = torch.empty_like(y)
            dist.recv(gradient, group_src=rank + 1, group=group)
            y.backward(gradient)
        if rank > 0:
            dist.send(x.grad, group_dst=rank - 1, group=group)
    return (total if rank == last else None), weight.grad
