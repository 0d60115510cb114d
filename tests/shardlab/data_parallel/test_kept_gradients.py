"""If the last backward does not use a parameter, DDP keeps its gradient from an earlier backward, on any rank."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel.ddp import DataParallel
from torch import nn

X = torch.ones(3, 2)


class Three(nn.Module):
    """Uses one of three layers. The last is never used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(2, 1) for _ in range(3))

    def forward(self, x, which):
        return self.layers[which](x).sum()


def wrap(kind, model):
    if kind == "torch":
        return nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    return DataParallel(model, unused_parameters=True)


def gradients(model):
    return [None if one.weight.grad is None else one.weight.grad.tolist() for one in model.layers]


def used_while_not_synchronized(kind, who):
    """Some ranks use the first layer in an unsynchronized backward. The last backward uses only the second layer."""
    model = Three()
    wrapped = wrap(kind, model)
    with wrapped.no_sync():
        wrapped(X, 0 if dist.get_rank() in who else 1).backward()
    wrapped(X, 1).backward()
    return gradients(model)


@pytest.mark.parametrize("who", [(0, 1), (1,)], ids=["all-ranks", "one-rank"])
def test_what_was_used_without_synchronization_is_averaged_as_torch_does(who):
    ours, torchs = (shardlab.run(used_while_not_synchronized, kind, who, ranks=2) for kind in ("ours", "torch"))
    assert ours == torchs
    share = 3.0 * len(who) / 2
    assert ours[0] == [[[share, share]], [[6.0 - share, 6.0 - share]], None] == ours[1]


def used_in_turn(kind):
    """Two synchronized backwards, one layer each, then the first again."""
    model = Three()
    wrapped = wrap(kind, model)
    for which in (0, 1, 0):
        wrapped(X, which).backward()
    kept = gradients(model)
    model.zero_grad()
    wrapped(X, 1).backward()
    return kept, gradients(model)


def test_gradients_of_synchronized_backwards_add_up():
    ours, torchs = (shardlab.run(used_in_turn, kind, ranks=2) for kind in ("ours", "torch"))
    assert ours == torchs
    assert ours[0] == ([[[6.0, 6.0]], [[3.0, 3.0]], None], [None, [[3.0, 3.0]], None])
