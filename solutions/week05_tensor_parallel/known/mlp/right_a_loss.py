"""Different: a loss whose gradient is the one given."""

import torch
from shardlab.tensor_parallel import sum_of_all, to_all


def mlp_step(x, up, up_bias, down, down_bias, gradient, *, group):
    leaves = [one.clone().requires_grad_() for one in (x, up, up_bias, down, down_bias)]
    x, up, up_bias, down, down_bias = leaves
    y = sum_of_all(torch.relu(to_all(x, group=group) @ up + up_bias) @ down, group=group)
    y = y + down_bias
    (y * gradient).sum().backward()
    return y.detach(), *(leaf.grad for leaf in leaves)
