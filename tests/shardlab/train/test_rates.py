"""The learning rate of every step, compared with numbers computed by hand and torch's schedulers."""

import pytest
import torch
from shardlab.train import lr_at
from shardlab.train.sections import LearningRate


def test_warm_up_then_half_a_cosine():
    lr = LearningRate(peak=0.1, warmup=4, floor=0.2)
    assert [round(lr_at(step, lr, 12), 6) for step in (0, 1, 3, 4)] == [0.025, 0.05, 0.1, 0.1]
    assert lr_at(8, lr, 12) == pytest.approx(0.1 * 0.6)  # halfway
    assert lr_at(12, lr, 12) == pytest.approx(0.02) == lr_at(50, lr, 12)


def test_constant():
    assert {lr_at(step, LearningRate(peak=0.1, shape="constant"), 5) for step in range(9)} == {0.1}


def test_the_cosine_is_torchs():
    lr, parameter = LearningRate(peak=0.3, floor=0.1), torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.3)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.03)
    for step in range(20):
        assert lr_at(step, lr, 20) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        theirs.step()
