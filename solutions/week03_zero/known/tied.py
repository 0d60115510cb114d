# %% right_counts_gradients
"""Different: counts the gradients that are there."""

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


def zero2_by_layer(model, tokens, *, group):
    owner, layers = {}, []
    for layer in [model.embedding, *model.blocks, model.head]:
        own = [parameter for parameter in layer.parameters() if parameter not in owner]
        owner |= dict.fromkeys(own, len(layers))
        layers += [own] if own else []
    slices, waiting = [None] * len(layers), [len(own) for own in layers]

    def arrived(parameter):
        number = owner[parameter]
        if all(p.grad is not None for p in layers[number]):
            slices[number] = mean_slice([p.grad for p in layers[number]], group=group)
            for p in layers[number]:
                p.grad = None

    hooks = [parameter.register_post_accumulate_grad_hook(arrived) for parameter in owner]
    model(tokens).square().mean().backward()
    for hook in hooks:
        hook.remove()
    return slices


# %% after_the_backward of="right_counts_gradients"
"""Wrong: everything is sent when the backward is over."""

# -        if all(p.grad is not None for p in layers[number]):
# -            slices[number] = mean_slice([p.grad for p in layers[number]], group=group)
# -            for p in layers[number]:
# -                p.grad = None
# +        waiting[number] -= 1

#          hook.remove()
# +    for number, own in enumerate(layers):
# +        slices[number] = mean_slice([p.grad for p in own], group=group)
# +        for p in own:
# +            p.grad = None

# %% first_weight_sends of="right_counts_gradients"
"""Wrong: a layer leaves with the first of its gradients, the others are zeros."""

# -        if all(p.grad is not None for p in layers[number]):
# -            slices[number] = mean_slice([p.grad for p in layers[number]], group=group)
# +        waiting[number] -= 1
# +        if waiting[number] == len(layers[number]) - 1:
# +            some = [torch.zeros_like(p) if p.grad is None else p.grad for p in layers[number]]
# +            slices[number] = mean_slice(some, group=group)

# %% not_freed of="right_counts_gradients"
"""Wrong: never frees the gradients."""

# -        if all(p.grad is not None for p in layers[number]):
# +        waiting[number] -= 1
# +        if waiting[number] == 0:

# -            for p in layers[number]:
# -                p.grad = None

# %% one_call_a_weight of="right_counts_gradients"
"""Wrong: a call for each weight."""

# -        if all(p.grad is not None for p in layers[number]):
# -            slices[number] = mean_slice([p.grad for p in layers[number]], group=group)
# +        waiting[number] -= 1
# +        if waiting[number] == 0:
# +            size = dist.get_world_size(group)
# +            sums = [mean_slice([p.grad], group=group) for p in layers[number]]
# +            slices[number] = flatten_and_pad(sums, 1)[: -(-sum(p.numel() for p in layers[number]) // size)]

# %% right_head_first
"""Different: gives the shared weight to the head: a hook belongs to the weight, not to a layer."""

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


def zero2_by_layer(model, tokens, *, group):
    owner, layers = {}, []
    for layer in [model.head, *model.blocks, model.embedding]:
        own = [parameter for parameter in layer.parameters() if parameter not in owner]
        owner |= dict.fromkeys(own, len(layers))
        layers += [own] if own else []
    slices, waiting = [None] * len(layers), [len(own) for own in layers]

    def arrived(parameter):
        number = owner[parameter]
        waiting[number] -= 1
        if waiting[number] == 0:
            slices[number] = mean_slice([p.grad for p in layers[number]], group=group)
            for p in layers[number]:
                p.grad = None

    hooks = [parameter.register_post_accumulate_grad_hook(arrived) for parameter in owner]
    model(tokens).square().mean().backward()
    for hook in hooks:
        hook.remove()
    return slices


# %% leaves_the_shared_one_out of="right_head_first"
"""Wrong: skips the shared weight."""

# -    for layer in [model.head, *model.blocks, model.embedding]:
# +    for layer in list(model.blocks):

# %% module_hooks of="right_head_first"
"""Wrong: a backward hook of the embedding and of blocks, with an embedding that still waits for its gradient."""

# -    for layer in [model.head, *model.blocks, model.embedding]:
# +    for layer in [model.embedding, *model.blocks, model.head]:

# -    hooks = [parameter.register_post_accumulate_grad_hook(arrived) for parameter in owner]
# +    hooks = [
# +        layer.register_full_backward_hook(lambda *_, own=own: [arrived(p) for p in own])
# +        for layer, own in zip([model.head, *model.blocks], layers, strict=False)
# +    ]

# %% one_bucket of="right_head_first"
"""Wrong: one call for the whole model, at the end."""

# -    for layer in [model.head, *model.blocks, model.embedding]:
# +    for layer in [model.embedding, *model.blocks, model.head]:

# -        owner |= dict.fromkeys(own, len(layers))
# -        layers += [own] if own else []
# +        owner |= dict.fromkeys(own, 0)
# +        layers = [[*(layers[0] if layers else []), *own]]

# %% sends_twice of="right_head_first"
"""Wrong: the head has its own copy of the shared weight's slot."""

# -    for layer in [model.head, *model.blocks, model.embedding]:
# -        own = [parameter for parameter in layer.parameters() if parameter not in owner]
# +    for layer in [model.embedding, *model.blocks, model.head]:
# +        own = list(layer.parameters())

# %% unties of="right_head_first"
"""Wrong: gives the head a weight of its own."""

# -    for layer in [model.head, *model.blocks, model.embedding]:
# +    model.head.weight = torch.nn.Parameter(model.embedding.weight.detach().clone())
# +    for layer in [model.embedding, *model.blocks, model.head]:

# %% right_sets
"""Different: sets of what is missing."""

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


def zero2_by_layer(model, tokens, *, group):
    owner, layers = {}, []
    for layer in [model.embedding, *model.blocks, model.head]:
        own = [parameter for parameter in layer.parameters() if parameter not in owner]
        owner |= dict.fromkeys(own, len(layers))
        layers += [own] if own else []
    slices, waiting = [None] * len(layers), [set(own) for own in layers]

    def arrived(parameter):
        number = owner[parameter]
        waiting[number].discard(parameter)
        if not waiting[number]:
            slices[number] = mean_slice([p.grad for p in layers[number]], group=group)
            for p in layers[number]:
                p.grad = None

    hooks = [parameter.register_post_accumulate_grad_hook(arrived) for parameter in owner]
    model(tokens).square().mean().backward()
    for hook in hooks:
        hook.remove()
    return slices


# %% hooks_stay of="right_sets"
"""Wrong: the hooks stay on the model, so that at the second step those of the first have freed the gradients."""

# -    hooks = [parameter.register_post_accumulate_grad_hook(arrived) for parameter in owner]
# +    for parameter in owner:
# +        parameter.register_post_accumulate_grad_hook(arrived)

# -    for hook in hooks:
# -        hook.remove()
