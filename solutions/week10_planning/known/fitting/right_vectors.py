"""Different: all layouts at once, as tensors."""

import torch


def rank_bytes(model, layout, sequences):
    return all_bytes(model, torch.tensor([layout], dtype=torch.float64), sequences)[0].item()


def all_bytes(model, table, sequences):
    tp, pp, dp, b = table.T
    states = model["parameters"] / (tp * pp) * (6 + 12 / dp)
    held = torch.minimum(pp, (sequences / (dp * b)).floor())
    return states + held * model["layers"] / pp * 34 * model["sequence"] * b * model["hidden"] / tp


def fitting(layouts, model, sequences, limit_bytes):
    table = torch.tensor(layouts, dtype=torch.float64)
    keep = all_bytes(model, table, sequences) <= limit_bytes
    return [layout for layout, kept in zip(layouts, keep.tolist(), strict=True) if kept]
