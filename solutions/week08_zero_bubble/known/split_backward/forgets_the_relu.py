"""Wrong: the gradient goes through the ReLU as if it were not there."""


def input_gradient(weights, inputs, gradient):
    arrived = []
    for layer in reversed(range(len(weights))):
        arrived.insert(0, gradient)
        gradient = gradient @ weights[layer].T
    return gradient, arrived


def weight_gradients(inputs, arrived):
    return [layer_input.T @ gradient for layer_input, gradient in zip(inputs, arrived, strict=True)]
