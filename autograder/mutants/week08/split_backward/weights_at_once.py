"""Wrong: computes the weights' gradients already in I."""


def input_gradient(weights, inputs, gradient):
    arrived = []
    for layer in reversed(range(len(weights))):
        arrived.insert(0, inputs[layer].T @ gradient)
        gradient = gradient @ weights[layer].T
        if layer > 0:
            gradient = gradient * (inputs[layer] > 0)
    return gradient, arrived


def weight_gradients(inputs, arrived):
    return list(arrived)
