"""Different: the hook stays; autograd adds the last gradient, so that it fires once."""

import torch
import torch.distributed as dist


def weight_gradient(weight, inputs, gradients, *, group):
    weight = torch.nn.Parameter(weight.clone())

    def average(parameter):
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= dist.get_world_size(group)

    weight.register_post_accumulate_grad_hook(average)
    rows, arrived = torch.cat(list(inputs)), torch.cat(list(gradients))
    torch.autograd.backward([rows @ weight], [arrived], inputs=[weight])
    return weight.grad
