"""Different: whole numbers, and a tensor of three."""

import torch


def tensor_parallel_bill(num_ranks, batch, sequence, hidden, vocabulary):
    tokens = batch * sequence
    sizes = torch.tensor([16 * hidden, 24, 2 * vocabulary], dtype=torch.float64)
    return sizes * tokens * (num_ranks - 1) / num_ranks
