"""Layers that sleep and a slow link: the same gradients, and never faster than the emulated time."""

import time

import pytest
import shardlab
import torch
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.emulated import EmulatedLayer, over_link
from torch import nn


def one_step():
    layers = [EmulatedLayer(1000, forward_seconds=0.01, backward_seconds=0.02) for _ in range(2)]
    model = DataParallel(nn.Sequential(*layers), bucket_bytes=1, first_bucket_bytes=1, reduce=over_link(100_000))
    began = time.monotonic()
    model(torch.ones(3)).sum().backward()
    return time.monotonic() - began, [p.grad[0].item() for p in model.parameters() if p.grad is not None]


def test_a_step_takes_its_layers_and_then_its_link():
    for seconds, gradients in shardlab.run(one_step, ranks=2):
        assert seconds >= 2 * 0.01 + 0.02 + 2 * 0.04  # both forwards, the last layer's backward, two buckets of 4 KB
        assert gradients == pytest.approx([0.003, 0.003])


def test_a_link_without_bandwidth_is_refused():
    with pytest.raises(ValueError, match="more than 0"):
        over_link(0)
