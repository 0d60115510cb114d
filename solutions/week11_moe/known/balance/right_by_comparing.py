"""Different: a loop over experts, Python's whole numbers."""

import torch


def balance_loss(scores, experts):
    num = scores.shape[1]
    shares = scores / scores.sum(1, keepdim=True)
    loss = scores.new_zeros(())
    for expert in range(num):
        loss = loss + (experts == expert).sum() * shares[:, expert].mean()
    return loss * num / experts.numel()


def loss_step(scores, experts):
    leaf = scores.clone().requires_grad_()
    loss = balance_loss(leaf, experts)
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


def moved_bias(bias, load, rate):
    total, num, moved = sum(load.tolist()), len(load), bias.clone()
    for expert, one in enumerate(load.tolist()):
        if num * one < total:
            moved[expert] += rate
        elif num * one > total:
            moved[expert] -= rate
    return moved
