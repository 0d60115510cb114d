"""Different: takes its share of the loss before the backward."""

import torch
import torch.distributed as dist


def flatten_and_pad(tensors, num_ranks):
    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])


def mean_slice(tensors, *, group):
    flat = flatten_and_pad(tensors, dist.get_world_size(group))
    mine = flat.new_empty(flat.numel() // dist.get_world_size(group))
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine


def zero2_backward(model, inputs, *, group):
    slices, hooks = {}, []

    def arrived(parameter):
        slices[parameter] = mean_slice([parameter.grad], group=group)
        parameter.grad = None

    for parameter in model.parameters():
        hooks.append(parameter.register_post_accumulate_grad_hook(arrived))
    (model(inputs).square().mean() / dist.get_world_size(group)).backward()
    for hook in hooks:
        hook.remove()
    return [slices[parameter] for parameter in model.parameters()]
