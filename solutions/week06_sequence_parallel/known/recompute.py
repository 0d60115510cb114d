# %% right_fork
"""Different: the state put back by a context manager, gradients by backward() into fresh leaves."""

from contextlib import contextmanager

import torch
from torch.nn.functional import gelu


@contextmanager
def as_it_was(generator, state):
    present = generator.get_state()
    generator.set_state(state)
    yield
    generator.set_state(present)


class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, generator, *inputs):
        ctx.run, ctx.generator = run, generator
        ctx.before = generator.get_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        leaves = [one.detach().clone().requires_grad_() for one in ctx.saved_tensors]
        with as_it_was(ctx.generator, ctx.before), torch.enable_grad():
            output = ctx.run(*leaves)
        torch.autograd.backward(output, gradient)
        return (None, None, *(leaf.grad for leaf in leaves))


def drop(x, p, generator):
    return x * (torch.rand(x.shape, generator=generator) >= p) / (1 - p)


def through_layers(x, layers, gradient, p, seed):
    generator = torch.Generator().manual_seed(seed)
    y = x = x.clone().requires_grad_()
    layers = [[weight.clone().requires_grad_() for weight in layer] for layer in layers]
    for up, down in layers:
        y = Again.apply(lambda y, up, down: y + drop(gelu(y @ up), p, generator) @ down, generator, y, up, down)
    y.backward(gradient)
    gradients = [[weight.grad for weight in layer] for layer in layers]
    return y.detach(), x.grad, gradients, torch.rand(1, generator=generator)


# %% keeps_everything of="right_fork"
"""Wrong: runs the function once, as always: right, and everything inside is kept."""

# -        y = Again.apply(lambda y, up, down: y + drop(gelu(y @ up), p, generator) @ down, generator, y, up, down)
# +        y = y + drop(gelu(y @ up), p, generator) @ down

# %% draws_the_masks_again of="right_fork"
"""Wrong: runs it again with whatever random numbers come next, and puts the generator back."""

# -    generator.set_state(state)

# %% restores_the_global_state of="right_fork"
"""Wrong: notes and restores torch's global state; the masks come from another generator."""

# -        ctx.before = generator.get_state()
# +        ctx.before = torch.get_rng_state()

# -        with as_it_was(ctx.generator, ctx.before), torch.enable_grad():
# +        with as_it_was(torch.default_generator, ctx.before), torch.enable_grad():

# %% notes_the_state_too_late of="right_fork"
"""Wrong: notes the random state after the forward."""

#          ctx.run, ctx.generator = run, generator
# +        ctx.save_for_backward(*inputs)
# +        output = run(*inputs)

# -        ctx.save_for_backward(*inputs)
# -        return run(*inputs)
# +        return output

# %% does_not_put_it_back of="right_fork"
"""Wrong: leaves the generator where the second run ends."""

# -    generator.set_state(present)

# %% a_seed_of_its_own of="right_fork"
"""Wrong: seeds before each run: every layer drops the same numbers."""

#          ctx.save_for_backward(*inputs)
# +        generator.manual_seed(0)

#          with as_it_was(ctx.generator, ctx.before), torch.enable_grad():
# +            ctx.generator.manual_seed(0)

# %% forgets_the_gradient of="right_fork"
"""Wrong: goes back with ones instead of the gradient that came."""

# -        torch.autograd.backward(output, gradient)
# +        torch.autograd.backward(output, torch.ones_like(gradient))

# %% only_of_x of="right_fork"
"""Wrong: returns no gradients of the weights."""

# -        return (None, None, *(leaf.grad for leaf in leaves))
# +        return (None, None, leaves[0].grad, *(torch.zeros_like(leaf) for leaf in leaves[1:]))

# %% keeps_the_graph of="right_fork"
"""Wrong: runs with a graph in the forward and keeps that: nothing is free."""

# -        return run(*inputs)
# +        ctx.leaves = [one.detach().clone().requires_grad_() for one in inputs]
# +        with torch.enable_grad():
# +            ctx.output = run(*ctx.leaves)
# +        return ctx.output.detach()

# -        leaves = [one.detach().clone().requires_grad_() for one in ctx.saved_tensors]
# -        with as_it_was(ctx.generator, ctx.before), torch.enable_grad():
# -            output = ctx.run(*leaves)
# -        torch.autograd.backward(output, gradient)
# -        return (None, None, *(leaf.grad for leaf in leaves))
# +        torch.autograd.backward(ctx.output, gradient)
# +        return (None, None, *(leaf.grad for leaf in ctx.leaves))

# %% half_the_way of="right_fork"
"""Wrong: what goes through the layer is left out: the residual alone goes back."""

# -        return (None, None, *(leaf.grad for leaf in leaves))
# +        return (None, None, gradient, *(leaf.grad for leaf in leaves[1:]))

# %% right_own_tape
"""Different: no graph at all between layers: a list of inputs and random states, walked backwards."""

import torch
from torch.nn.functional import gelu


def layer(y, up, down, p, generator):
    inner = gelu(y @ up)
    return y + inner * (torch.rand(inner.shape, generator=generator) >= p) / (1 - p) @ down


def through_layers(x, layers, gradient, p, seed):
    generator = torch.Generator().manual_seed(seed)
    tape, y = [], x
    for up, down in layers:
        tape.append((generator.get_state(), y))
        y = layer(y, up, down, p, generator)
    now, found = generator.get_state(), []
    for (state, entered), weights in zip(reversed(tape), reversed(layers), strict=True):
        leaves = [one.clone().requires_grad_() for one in (entered, *weights)]
        generator.set_state(state)
        gradient, *mine = torch.autograd.grad(layer(*leaves, p, generator), leaves, gradient)
        found.insert(0, mine)
    generator.set_state(now)
    return y.clone(), gradient, found, torch.rand(1, generator=generator)


# %% drops_nothing_again of="right_own_tape"
"""Wrong: the second run drops nothing, as in evaluation."""

# -        gradient, *mine = torch.autograd.grad(layer(*leaves, p, generator), leaves, gradient)
# +        gradient, *mine = torch.autograd.grad(layer(*leaves, 0.0, generator), leaves, gradient)

# %% keeps_a_tape_of_graphs of="right_own_tape"
"""Wrong: keeps the graph of every layer on a tape: right, and nothing is free."""

# -        tape.append((generator.get_state(), y))
# -        y = layer(y, up, down, p, generator)
# +        leaves = [one.detach().clone().requires_grad_() for one in (y, up, down)]
# +        output = layer(*leaves, p, generator)
# +        tape.append((leaves, output))
# +        y = output.detach()

# -        leaves = [one.clone().requires_grad_() for one in (entered, *weights)]
# -        generator.set_state(state)
# -        gradient, *mine = torch.autograd.grad(layer(*leaves, p, generator), leaves, gradient)
# +        gradient, *mine = torch.autograd.grad(entered, state, gradient)

# %% one_state_for_all of="right_own_tape"
"""Wrong: runs every layer again from the state before the first."""

# -        generator.set_state(state)
# +        generator.set_state(tape[0][0])

# %% right_saved_tensor_hooks
"""Different: no Function: hooks forget what is saved, and run the layer again when the first of it is asked for."""

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import gelu


def forgetful(run, generator, *inputs):
    before, kept, again = generator.get_state(), [tensor.detach() for tensor in inputs], []
    count = iter(range(10**6))

    def bring_back(number):
        if not again:
            now = generator.get_state()
            generator.set_state(before)
            leaves = [tensor.clone().requires_grad_() for tensor in kept]
            with torch.enable_grad(), saved_tensors_hooks(lambda t: again.append(t.detach()), lambda t: t):
                run(*leaves)
            generator.set_state(now)
        return again[number]

    with saved_tensors_hooks(lambda tensor: next(count), bring_back):
        return run(*inputs)


def drop(x, p, generator):
    return x * (torch.rand(x.shape, generator=generator) >= p) / (1 - p)


def through_layers(x, layers, gradient, p, seed):
    generator = torch.Generator().manual_seed(seed)
    y = x = x.clone().requires_grad_()
    layers = [[weight.clone().requires_grad_() for weight in layer] for layer in layers]
    for up, down in layers:
        y = forgetful(lambda y, up, down: y + drop(gelu(y @ up), p, generator) @ down, generator, y, up, down)
    y.backward(gradient)
    gradients = [[weight.grad for weight in layer] for layer in layers]
    return y.detach(), x.grad, gradients, torch.rand(1, generator=generator)


# %% the_librarys
"""Wrong: calls torch's own checkpoint, which does not know the layer's generator."""

import torch
from torch.nn.functional import gelu
from torch.utils.checkpoint import checkpoint


def drop(x, p, generator):
    return x * (torch.rand(x.shape, generator=generator) >= p) / (1 - p)


def through_layers(x, layers, gradient, p, seed):
    generator = torch.Generator().manual_seed(seed)
    y = x = x.clone().requires_grad_()
    layers = [[weight.clone().requires_grad_() for weight in layer] for layer in layers]
    for up, down in layers:
        y = checkpoint(
            lambda y, up, down: y + drop(gelu(y @ up), p, generator) @ down, y, up, down, use_reentrant=False
        )
    y.backward(gradient)
    gradients = [[weight.grad for weight in layer] for layer in layers]
    return y.detach(), x.grad, gradients, torch.rand(1, generator=generator)
