"""Wrong: nodes drift apart: nothing is averaged across."""

import torch
import torch.distributed as dist


def hsdp_step(shard, inputs, lr, *, node_group, cross_group):
    per_node, num_nodes = dist.get_world_size(node_group), dist.get_world_size(cross_group)
    weights = shard.new_empty(per_node * shard.numel())
    dist.all_gather_single(weights, shard, group=node_group)
    (inputs @ weights.requires_grad_()).square().mean().backward()
    mine = torch.empty_like(shard)
    dist.reduce_scatter_single(mine, weights.grad, group=node_group)
    return shard - lr * mine / (per_node * num_nodes)
