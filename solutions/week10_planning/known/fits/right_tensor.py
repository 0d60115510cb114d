"""Different: returns a tensor of one number."""

import torch


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return (
        gpu_bytes
        - torch.tensor([2, 4, 12 / dp], dtype=torch.float64).sum() * num_parameters / (tp * pp)
        - activation_bytes
    )
