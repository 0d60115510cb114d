# %% right_divides_early
"""Different: divides in two steps, on its way."""

import torch
import torch.distributed as dist


def hsdp_step(shard, inputs, lr, *, node_group, cross_group):
    per_node, num_nodes = dist.get_world_size(node_group), dist.get_world_size(cross_group)
    weights = shard.new_empty(per_node * shard.numel())
    dist.all_gather_single(weights, shard, group=node_group)
    (inputs @ weights.requires_grad_()).square().mean().backward()
    mine = torch.empty_like(shard)
    dist.reduce_scatter_single(mine, weights.grad, group=node_group)
    mine /= per_node
    dist.all_reduce(mine, group=cross_group)
    return shard - lr / num_nodes * mine


# %% right_lists
"""Different: lists of tensors, a gradient written by hand."""

import torch
import torch.distributed as dist


def hsdp_step(shard, inputs, lr, *, node_group, cross_group):
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size(node_group))]
    dist.all_gather(parts, shard, group=node_group)
    gradient = 2 * inputs.T @ (inputs @ torch.cat(parts)) / len(inputs)
    mine = torch.empty_like(shard)
    dist.reduce_scatter(mine, list(gradient.chunk(len(parts))), group=node_group)
    dist.all_reduce(mine, group=cross_group)
    return shard.sub(mine, alpha=lr / len(parts) / dist.get_world_size(cross_group))


# %% no_cross
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


# %% divides_by_four of="no_cross"
"""Wrong: right on two nodes of two."""

# -    return shard - lr * mine / (per_node * num_nodes)
# +    dist.all_reduce(mine, group=cross_group)
# +    return shard - lr * mine / 4

# %% divides_by_the_node of="no_cross"
"""Wrong: divides by the ranks of a node only."""

# -    return shard - lr * mine / (per_node * num_nodes)
# +    dist.all_reduce(mine, group=cross_group)
# +    return shard - lr * mine / per_node

# %% gathers_again of="no_cross"
"""Wrong: gathers the new weights inside the node, for nobody."""

# -    return shard - lr * mine / (per_node * num_nodes)
# +    dist.all_reduce(mine, group=cross_group)
# +    new = shard - lr * mine / (per_node * num_nodes)
# +    dist.all_gather_single(weights.detach(), new, group=node_group)
# +    return new

# %% groups_swapped of="no_cross"
"""Wrong: shards over the other group."""

# -    per_node, num_nodes = dist.get_world_size(node_group), dist.get_world_size(cross_group)
# +    per_node, num_nodes = dist.get_world_size(cross_group), dist.get_world_size(node_group)

# -    dist.all_gather_single(weights, shard, group=node_group)
# +    dist.all_gather_single(weights, shard, group=cross_group)

# -    dist.reduce_scatter_single(mine, weights.grad, group=node_group)
# +    dist.reduce_scatter_single(mine, weights.grad, group=cross_group)
# +    dist.all_reduce(mine, group=node_group)

# %% in_place of="no_cross"
"""Wrong: updates the caller's slice."""

# -    return shard - lr * mine / (per_node * num_nodes)
# +    dist.all_reduce(mine, group=cross_group)
# +    return shard.sub_(lr * mine / (per_node * num_nodes))

# %% neighbours_slice of="no_cross"
"""Wrong: updates with the slice of the next rank."""

# -    dist.reduce_scatter_single(mine, weights.grad, group=node_group)
# +    dist.reduce_scatter_single(mine, weights.grad.roll(shard.numel()), group=node_group)
# +    dist.all_reduce(mine, group=cross_group)

# %% no_cross_right_divisor of="no_cross"
"""Wrong: the mean of its own node alone."""

# -    return shard - lr * mine / (per_node * num_nodes)
# +    return shard - lr * mine / per_node

# %% node_all_reduce of="no_cross"
"""Wrong: an all-reduce inside the node where a reduce-scatter is enough."""

# -    dist.reduce_scatter_single(mine, weights.grad, group=node_group)
# +    dist.all_reduce(weights.grad, group=node_group)
# +    mine = weights.grad.chunk(per_node)[dist.get_rank(node_group)].clone()
# +    dist.all_reduce(mine, group=cross_group)

# %% over_the_world of="no_cross"
"""Wrong: all-reduces the whole gradient over all ranks and takes its slice."""

# -    dist.reduce_scatter_single(mine, weights.grad, group=node_group)
# +    dist.all_reduce(weights.grad)
# +    mine = weights.grad.chunk(per_node)[dist.get_rank(node_group)]

# %% own_gradient of="no_cross"
"""Wrong: takes the slice of its own gradient, and sums across nodes only."""

# -    dist.reduce_scatter_single(mine, weights.grad, group=node_group)
# +    mine = weights.grad.chunk(per_node)[dist.get_rank(node_group)].clone()
# +    dist.all_reduce(mine, group=cross_group)

# %% returns_everything of="no_cross"
"""Wrong: gathers the new weights and keeps them all."""

# -    return shard - lr * mine / (per_node * num_nodes)
# +    dist.all_reduce(mine, group=cross_group)
# +    new = shard - lr * mine / (per_node * num_nodes)
# +    dist.all_gather_single(weights.detach(), new, group=node_group)
# +    return weights.detach()

# %% sum_for_mean of="no_cross"
"""Wrong: a sum for a mean."""

# -    return shard - lr * mine / (per_node * num_nodes)
# +    dist.all_reduce(mine, group=cross_group)
# +    return shard - lr * mine

# %% whole_gradient_crosses of="no_cross"
"""Wrong: all-reduces the whole gradient across nodes, then cuts it."""

#      (inputs @ weights.requires_grad_()).square().mean().backward()
# +    dist.all_reduce(weights.grad, group=cross_group)
