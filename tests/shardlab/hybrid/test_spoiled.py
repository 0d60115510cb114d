"""A NaN gradient is blamed on the rank where it arose, although the sum spreads it to all ranks."""

import math

import pytest
import shardlab
import torch
from shardlab.hybrid.sums import NotFinite
from shardlab.train.hook import Hook
from shardlab.train.loop import train

from tests.shardlab.train.small import recipe


class Poison(Hook):
    """Puts a NaN into one weight's gradient in one backward of one rank."""

    def __init__(self, rank, name):
        self.rank, self.name = rank, name

    def on_step(self, training, step):
        if step == 2 and training.rank == self.rank:
            [part] = training.trainer.parts.values()
            weight = next(one for name, one in part.named_parameters() if name.endswith(self.name))
            handle = weight.register_hook(lambda gradient: (handle.remove(), torch.full_like(gradient, torch.nan))[1])


def blamed(one, rank, name):
    try:
        train(one, hooks=[Poison(rank, name)], quiet=True)
    except NotFinite as error:
        return error.rank, error.name
    return None


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("mesh", [{"dp": 3}, {"pp": 2, "dp": 2}], ids=["dp", "pp-dp"])
def test_who_brought_it_is_named_under_every_stage(zero, mesh):
    one = recipe(mesh, step={"batch": 12, "microbatches": 2, "zero": zero})
    last = math.prod(mesh.values()) - 1
    found = shardlab.run(blamed, one, last, "norm_1.weight", ranks=last + 1, timeout=90, observe=False)
    assert {rank for rank, _ in found} == {last} and all(name.endswith("norm_1.weight") for _, name in found)
