"""Different: the sign, with a rate that falls a hundredfold."""

import torch


def next_bias(bias, load, step):
    rate = 0.1 * 0.01 ** (step / 49)
    return bias + rate * torch.sign(load.float().mean() - load)


def balanced(batches, k):
    bias, biases = torch.zeros(batches.shape[-1]), []
    for step, logits in enumerate(batches):
        experts = (logits.sigmoid() + bias).topk(k, -1).indices
        bias = next_bias(bias, torch.bincount(experts.flatten(), minlength=len(bias)), step)
        biases.append(bias)
    return torch.stack(biases)
