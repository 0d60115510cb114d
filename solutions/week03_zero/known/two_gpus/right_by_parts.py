"""Different: weights, gradients and states, each halved from its stage on."""


def hundred_million_on_two():
    weights, gradients, states = 0.2, 0.2, 1.2
    return [
        weights + gradients + states,
        weights + gradients + states / 2,
        weights + gradients / 2 + states / 2,
        (weights + gradients + states) / 2,
    ]
