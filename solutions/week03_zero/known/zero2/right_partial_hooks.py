"""Different: a hook with its place bound, a list of slots."""

import torch
import torch.distributed as dist


def flatten_and_pad(tensors, num_ranks):
    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])


def mean_slice(tensors, *, group):
    flat = flatten_and_pad(tensors, dist.get_world_size(group))
    mine = flat.new_empty(flat.numel() // dist.get_world_size(group))
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / dist.get_world_size(group)


def zero2_backward(model, inputs, *, group):
    slots, handles = [None] * len(list(model.parameters())), []
    for number, parameter in enumerate(model.parameters()):

        def arrived(p, number=number):
            slots[number] = mean_slice([p.grad], group=group)
            p.grad = None

        handles.append(parameter.register_post_accumulate_grad_hook(arrived))
    model(inputs).square().mean().backward()
    while handles:
        handles.pop().remove()
    return slots
