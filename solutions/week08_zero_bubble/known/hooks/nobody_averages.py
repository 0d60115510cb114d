"""Wrong: the bug itself, every replica keeps its own gradient."""

import torch


def weight_gradient(weight, inputs, gradients, *, group):
    total = torch.zeros_like(weight)
    for layer_input, gradient in zip(inputs, gradients, strict=True):
        total += layer_input.T @ gradient
    return total
