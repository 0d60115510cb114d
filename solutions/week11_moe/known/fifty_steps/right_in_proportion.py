"""Different: in proportion to what is missing, within limits, and less and less."""

import torch


def next_bias(bias, load, step):
    even = load.sum() / len(load)
    wanted = ((even - load) / even).clip(-1, 1)
    return bias + max(0.01, 0.15 - 0.003 * step) * wanted


def balanced(batches, k):
    bias, biases = torch.zeros(batches.shape[-1]), []
    for step, logits in enumerate(batches):
        experts = (logits.sigmoid() + bias).topk(k, -1).indices
        bias = next_bias(bias, torch.bincount(experts.flatten(), minlength=len(bias)), step)
        biases.append(bias)
    return torch.stack(biases)
