"""Ranks that use units of one size in different orders are told so, all alike, before a weight is changed."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel.zero3 import Zero3
from shardlab.data_parallel.zero_plus_plus import ZeroPlusPlus

from tests.shardlab.data_parallel.test_branches import WIDTH, new_model

RANKS = 3
ODD = {0: 1, 1: 2, 2: 1}  # which branch a rank takes in the step that goes wrong


def one_goes_astray(kind, prefetch, right_steps, training):
    """Some steps alike, then one in which rank 1 takes another branch; its error, and whether weights were changed."""
    model = new_model()
    units = [model.first, *model.branches, model.last]
    zero = kind(model, torch.optim.SGD, units=units, lr=0.1, prefetch=prefetch)
    x = torch.ones(2, WIDTH, dtype=torch.float64)
    for step in range(right_steps):
        model(x, step % 2).square().mean().backward()
        zero.step()
        zero.zero_grad()
    before = zero.full_parameters()
    try:
        with torch.set_grad_enabled(training):
            output = model(x, ODD[dist.get_rank()])
        if training:
            output.square().mean().backward()
        zero.step()
    except ValueError as error:
        zero.zero_grad()
        after = zero.full_parameters()
        return str(error), all(torch.equal(after[name], before[name]) for name in before)
    return "nothing was said", False


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("right_steps", [0, 4])
@pytest.mark.parametrize(("kind", "prefetch"), [(Zero3, 0), (Zero3, 1), (Zero3, 2), (ZeroPlusPlus, 1)])
def test_all_ranks_are_told(kind, prefetch, right_steps, training):
    told = shardlab.run(one_goes_astray, kind, prefetch, right_steps, training, ranks=RANKS, timeout=60)
    assert len({sentence for sentence, _ in told}) == 1, told
    sentence = told[0][0]
    of_1, of_0 = sentence.split(" where rank 0 ")
    assert of_1.startswith("rank 1 gathered first, ") and of_0.startswith("gathered first, ")
    assert "branches.2" in of_1 and "branches.2" not in of_0
    assert all(unchanged for _, unchanged in told)


def stores_keys(steps):
    """How many times the ranks compared their orders: keys of the store that were said by rank 0."""
    model = new_model()
    zero = Zero3(model, torch.optim.SGD, units=[model.first, *model.branches, model.last], lr=0.1)
    x = torch.ones(2, WIDTH, dtype=torch.float64)
    talks = []
    for step in range(steps):
        model(x, step % 3).square().mean().backward()
        zero.step()
        zero.zero_grad()
        talks.append(zero._gathers._talks)
    return talks


def test_known_orders_are_not_compared_again():
    talks = shardlab.run(stores_keys, 9, ranks=2, timeout=60)
    assert talks[0] == talks[1]
    assert talks[0][-1] == talks[0][2] <= 6  # a forward and a backward of each branch, and no more after them
