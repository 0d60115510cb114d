"""Different: torch's permutation, whole batch first, then the replica's part."""

import torch


def permutation(seed, epoch, num):
    generator = torch.Generator().manual_seed(1_000_003 * seed + epoch)
    return torch.randperm(num, generator=generator)


def sequences(seed, step, replica, dp, batch, num):
    numbers = torch.arange(step * batch, (step + 1) * batch)
    epochs = range(int(numbers[0]) // num, int(numbers[-1]) // num + 1)
    orders = torch.cat([permutation(seed, epoch, num) for epoch in epochs])
    whole = orders[numbers - epochs[0] * num]
    return whole.view(dp, -1)[replica].tolist()


def order_of(calls):
    return [sequences(*call) for call in calls]
