# %% right_divides_first
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


def zero2_backward(parameters, loss, *, group):
    slices, hooks = {}, []

    def arrived(parameter):
        slices[parameter] = mean_slice([parameter.grad], group=group)
        parameter.grad = None

    for parameter in parameters:
        hooks.append(parameter.register_post_accumulate_grad_hook(arrived))
    (loss / dist.get_world_size(group)).backward()
    for hook in hooks:
        hook.remove()
    return [slices[parameter] for parameter in parameters]


def mean_square_backward(model, inputs, *, group):
    return zero2_backward(list(model.parameters()), model(inputs).square().mean(), group=group)


# %% after_the_backward of="right_divides_first"
"""Wrong: reduces when the whole backward is over: all gradients exist at once."""

# -    return mine
# +    return mine / dist.get_world_size(group)

# -        slices[parameter] = mean_slice([parameter.grad], group=group)
# -        parameter.grad = None
# +        pass

# -    (loss / dist.get_world_size(group)).backward()
# +    loss.backward()

#          hook.remove()
# +    for parameter in parameters:
# +        slices[parameter] = mean_slice([parameter.grad], group=group)
# +        parameter.grad = None

# %% all_reduces of="right_divides_first"
"""Wrong: all-reduces each gradient and keeps a slice: twice the bytes."""

# -    dist.reduce_scatter_single(mine, flat, group=group)
# -    return mine
# +    dist.all_reduce(flat, group=group)
# +    mine = flat.chunk(dist.get_world_size(group))[dist.get_rank(group)]
# +    return mine / dist.get_world_size(group)

# -    (loss / dist.get_world_size(group)).backward()
# +    loss.backward()

# %% forgets_the_subgroup of="right_divides_first"
"""Wrong: asks the world for rank and size."""

# -    flat = flatten_and_pad(tensors, dist.get_world_size(group))
# -    mine = flat.new_empty(flat.numel() // dist.get_world_size(group))
# +    flat = flatten_and_pad(tensors, dist.get_world_size())
# +    mine = flat.new_empty(flat.numel() // dist.get_world_size())

# -    return mine
# +    return mine / dist.get_world_size()

# -    (loss / dist.get_world_size(group)).backward()
# +    loss.backward()

# %% in_order_of_arrival of="right_divides_first"
"""Wrong: slices in the order of the backward, last layer first."""

# -    return mine
# +    return mine / dist.get_world_size(group)

# -    (loss / dist.get_world_size(group)).backward()
# +    loss.backward()

# -    return [slices[parameter] for parameter in parameters]
# +    return list(slices.values())

# %% keeps_a_list of="right_divides_first"
"""Wrong: frees .grad but keeps every full gradient in a list."""

# -    return mine
# +    return mine / dist.get_world_size(group)

# -    slices, hooks = {}, []
# +    slices, hooks, kept = {}, [], []

#      def arrived(parameter):
# +        kept.append(parameter.grad)

# -    (loss / dist.get_world_size(group)).backward()
# +    loss.backward()

# %% not_freed of="right_divides_first"
"""Wrong: never frees the full gradients."""

# -    return mine
# +    return mine / dist.get_world_size(group)

# -        parameter.grad = None

# -    (loss / dist.get_world_size(group)).backward()
# +    loss.backward()

# %% sum_for_mean of="right_divides_first"
"""Wrong: the sum where the mean is due."""

# -    (loss / dist.get_world_size(group)).backward()
# +    loss.backward()

# %% tensor_hooks of="right_divides_first"
"""Wrong: a tensor hook comes before .grad is there."""

# -    return mine
# +    return mine / dist.get_world_size(group)

# -        hooks.append(parameter.register_post_accumulate_grad_hook(arrived))
# -    (loss / dist.get_world_size(group)).backward()
# +        hooks.append(parameter.register_hook(arrived))
# +    loss.backward()

# %% views_of_full_gradients of="right_divides_first"
"""Wrong: slices are views of whole sums, which stay alive."""

# -    mine = flat.new_empty(flat.numel() // dist.get_world_size(group))
# -    dist.reduce_scatter_single(mine, flat, group=group)
# -    return mine
# +    parts = list(flat.chunk(dist.get_world_size(group)))
# +    mine = parts[dist.get_rank(group)]
# +    dist.reduce_scatter(mine, [part.clone() for part in parts], group=group)
# +    return mine.div_(dist.get_world_size(group))

# -    (loss / dist.get_world_size(group)).backward()
# +    loss.backward()

# %% weights_only of="right_divides_first"
"""Wrong: forgets the biases."""

# -    return mine
# +    return mine / dist.get_world_size(group)

# -    for parameter in parameters:
# +    for parameter in [p for p in parameters if p.dim() > 1]:

# -    (loss / dist.get_world_size(group)).backward()
# +    loss.backward()

# -    return [slices[parameter] for parameter in parameters]
# +    return [slices.get(parameter) for parameter in parameters]

# %% right_as_taught from="page" also="week03.flatten"
"""Different: the page's way, each message is waited for one hook later."""

import torch
import torch.distributed as dist

# %% right_partial_hooks
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


def zero2_backward(parameters, loss, *, group):
    slots, handles = [None] * len(parameters), []
    for number, parameter in enumerate(parameters):

        def arrived(p, number=number):
            slots[number] = mean_slice([p.grad], group=group)
            p.grad = None

        handles.append(parameter.register_post_accumulate_grad_hook(arrived))
    loss.backward()
    while handles:
        handles.pop().remove()
    return slots


def mean_square_backward(model, inputs, *, group):
    return zero2_backward(list(model.parameters()), model(inputs).square().mean(), group=group)


# %% hooks_stay of="right_partial_hooks"
"""Wrong: the hooks stay on the model, so that at the second step those of the first have freed the gradients."""

# -    slots, handles = [None] * len(parameters), []
# +    slots = [None] * len(parameters)

# -        handles.append(parameter.register_post_accumulate_grad_hook(arrived))
# +        parameter.register_post_accumulate_grad_hook(arrived)

# -    while handles:
# -        handles.pop().remove()
