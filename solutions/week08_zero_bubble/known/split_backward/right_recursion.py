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
