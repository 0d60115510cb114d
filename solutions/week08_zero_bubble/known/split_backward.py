# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% first_layer_first of="right_as_taught"
"""Wrong: runs through the layers forward."""

# -    for layer in reversed(range(len(weights))):
# +    for layer in range(len(weights)):

# %% last_layer_first of="right_as_taught"
"""Wrong: the list begins with the last layer."""

# -        arrived.insert(0, gradient)
# +        arrived.append(gradient)

# %% mean_over_rows of="right_as_taught"
"""Wrong: averages over the rows."""

# -    return [layer_input.T @ gradient for layer_input, gradient in zip(inputs, arrived, strict=True)]
# +    return [layer_input.T @ gradient / len(gradient) for layer_input, gradient in zip(inputs, arrived, strict=True)]

# %% relu_at_or_above_zero of="right_as_taught"
"""Wrong: lets the gradient through where the ReLU has cut to zero."""

# -            gradient = gradient * (inputs[layer] > 0)
# +            gradient = gradient * (inputs[layer] >= 0)

# %% two_layers_only of="right_as_taught"
"""Wrong: right for two layers."""

# -    for layer in reversed(range(len(weights))):
# +    for layer in (1, 0):

# %% weight_gradient_transposed of="right_as_taught"
"""Wrong: the gradient of a weight is transposed."""

# -    return [layer_input.T @ gradient for layer_input, gradient in zip(inputs, arrived, strict=True)]
# +    return [gradient.T @ layer_input for layer_input, gradient in zip(inputs, arrived, strict=True)]

# %% weights_at_once of="right_as_taught"
"""Wrong: computes the weights' gradients already in I."""

# -        arrived.insert(0, gradient)
# +        arrived.insert(0, inputs[layer].T @ gradient)

# -    return [layer_input.T @ gradient for layer_input, gradient in zip(inputs, arrived, strict=True)]
# +    return list(arrived)

# %% weights_not_transposed of="right_as_taught"
"""Wrong: multiplies by the weight instead of its transpose."""

# -        gradient = gradient @ weights[layer].T
# +        gradient = gradient @ weights[layer]

# %% right_autograd
"""Different: autograd does I on a graph that is rebuilt layer by layer; W is an einsum."""

import torch


def input_gradient(weights, inputs, gradient):
    arrived = [gradient]
    for layer, weight in reversed(list(enumerate(weights))):
        leaf = inputs[layer].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(leaf @ weight, leaf, gradient)
        if layer:
            gradient = torch.where(inputs[layer] > 0, gradient, torch.zeros_like(gradient))
            arrived.append(gradient)
    return gradient, arrived[::-1]


def weight_gradients(inputs, arrived):
    return [torch.einsum("ri,ro->io", x, g) for x, g in zip(inputs, arrived, strict=True)]


# %% right_recursion
"""Different: recursion over the layers."""


def input_gradient(weights, inputs, gradient):
    def through(layer, gradient):
        back = gradient @ weights[layer].T
        if layer == 0:
            return back, (gradient,)
        first, earlier = through(layer - 1, back * inputs[layer].sign())
        return first, (*earlier, gradient)

    return through(len(weights) - 1, gradient)


def weight_gradients(inputs, arrived):
    return tuple((gradient.T @ layer_input).T for layer_input, gradient in zip(inputs, arrived, strict=True))


# %% forgets_the_relu
"""Wrong: the gradient goes through the ReLU as if it were not there."""


def input_gradient(weights, inputs, gradient):
    arrived = []
    for layer in reversed(range(len(weights))):
        arrived.insert(0, gradient)
        gradient = gradient @ weights[layer].T
    return gradient, arrived


def weight_gradients(inputs, arrived):
    return [layer_input.T @ gradient for layer_input, gradient in zip(inputs, arrived, strict=True)]


# %% arrived_after_the_layer of="forgets_the_relu"
"""Wrong: notes what leaves a layer, not what arrives at its output."""

#      for layer in reversed(range(len(weights))):
# +        gradient = gradient @ weights[layer].T
# +        if layer > 0:
# +            gradient = gradient * (inputs[layer] > 0)

# -        gradient = gradient @ weights[layer].T

# %% relu_before_the_stage of="forgets_the_relu"
"""Wrong: a ReLU before the first layer too, which there is not."""

#          gradient = gradient @ weights[layer].T
# +        gradient = gradient * (inputs[layer] > 0)
