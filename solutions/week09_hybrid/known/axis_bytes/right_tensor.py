"""Different: one tensor of five numbers."""

import torch


def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    p = 2 * microbatch * sequence * hidden
    o = 2 * (tp - 1) / tp * p
    return torch.tensor(
        [p, o, 2 * layers / pp * o, p if pp > 1 else 0, 4 * (dp - 1) / dp * parameters], dtype=torch.float64
    )
