"""What autograd keeps is counted by storage: once, whole, without parameters."""

import torch
from shardlab.meter.saved import saved
from torch import nn


def test_a_storage_counts_once_and_whole():
    layer, x = nn.Linear(6, 4, bias=False), torch.randn(3, 6, requires_grad=True)
    with saved(layer.parameters()) as kept:
        half = layer(x)[:, :2]  # keeps x
        (half * half).sum()  # keeps a view of the result, twice
    assert kept.num_bytes == 4 * (3 * 6 + 3 * 4)
    assert len(kept.tensors) == 2 and "float32 [3, 6]" in str(kept)


def test_parameters_count_only_where_they_are_not_left_out():
    layer, x = nn.Linear(6, 4, bias=False), torch.randn(3, 6, requires_grad=True)
    with saved() as kept:
        layer(x)
    assert kept.num_bytes == 4 * (3 * 6 + 4 * 6)


def test_what_autograd_frees_is_no_activation():
    x = torch.randn(5, requires_grad=True)
    with saved() as kept, torch.no_grad():
        (x * x).sum()
    with saved() as of_mask:
        _ = x.masked_fill(x > 0, 0.0) * 2
    assert kept.num_bytes == 0 and of_mask.num_bytes == 5  # one byte each
