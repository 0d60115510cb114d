"""Different: three numbers in one tensor."""

import torch


def interruptions(num_gpus, hours_of_one, days):
    hours = torch.tensor(hours_of_one, dtype=torch.float64) / num_gpus
    return list(torch.stack([hours, 24 * days / hours, torch.exp(-24 / hours)]).tolist())
