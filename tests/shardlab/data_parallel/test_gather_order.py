"""Ranks that use units of equal size in different orders all raise the same error before any weight changes."""

from datetime import timedelta

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel import gather_order
from shardlab.data_parallel.zero import Zero3, ZeroPlusPlus

from tests.shardlab.data_parallel.test_branches import WIDTH, new_model

RANKS = 3
NEW, KNOWN = (1, 2, 1), (0, 1, 0)  # each rank's branch in the wrong step; normally 0 and 1


def one_goes_astray(kind, prefetch, right_steps, training, taken=NEW):
    """Some equal steps, then one with another branch on rank 1. Returns its error and whether weights changed."""
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
            output = model(x, taken[dist.get_rank()])
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
    of_1, of_0 = sentence.split(", but rank 0 ")
    assert of_1.startswith("rank 1 gathered first, ") and of_0.startswith("gathered first, ")
    assert "branches.2" in of_1 and "branches.2" not in of_0
    assert all(unchanged for _, unchanged in told)


def one_gathers_more():
    """As above, but prefetched units make the orders differ in length, and errors are not caught."""
    model = new_model()
    zero = Zero3(model, torch.optim.SGD, units=[model.first, *model.branches, model.last], lr=0.1, prefetch=1)
    for branch in (0, 1, 0, 1, KNOWN[dist.get_rank()]):
        model(torch.ones(2, WIDTH, dtype=torch.float64), branch).square().mean().backward()
        zero.step()
        zero.zero_grad()


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("right_steps", [4, 5])
def test_orders_that_all_have_used_before_do_not_mix(right_steps, training):
    told = shardlab.run(one_goes_astray, Zero3, 0, right_steps, training, KNOWN, ranks=RANKS, timeout=60)
    assert len({sentence for sentence, _ in told}) == 1, told
    sentence, unchanged = told[0]
    assert sentence.startswith("rank 1 gathered first, ") and unchanged


@pytest.mark.slow
def test_a_rank_that_gathers_more_than_the_others_ends_in_a_sentence():
    with pytest.raises(
        shardlab.RanksFailed, match=r"gathered first, .*, but other ranks are still gathering\. No weight was changed"
    ):
        shardlab.run(one_gathers_more, ranks=RANKS, timeout=100)


def comparisons(branches):
    """How often the ranks have compared their orders after each step."""
    model = new_model()
    zero = Zero3(model, torch.optim.SGD, units=[model.first, *model.branches, model.last], lr=0.1)
    x = torch.ones(2, WIDTH, dtype=torch.float64)
    compare, compared, talks = zero.weights.gathers._compare, [], []

    def counted(number):
        compared.append(number)
        compare(number)

    zero.weights.gathers._compare = counted  # only this object
    for branch in branches:
        model(x, branch).square().mean().backward()
        zero.step()
        zero.zero_grad()
        talks.append(len(compared))
    return talks


@pytest.mark.parametrize(("branches", "settled"), [([0] * 6, 2), ([0, 1, 2] * 3, 4)], ids=["one", "in turn"])
def test_an_order_that_comes_when_it_is_due_is_not_compared(branches, settled):
    talks, others = shardlab.run(comparisons, branches, ranks=2, timeout=60)
    assert talks == others and talks[0] == 2  # a forward and a backward
    assert talks[settled - 1] == talks[-1]


# ---- a rank that is ahead -------------------------------------------------------------------------------------------


def ahead():
    """Rank 0 has left a note for a pass that rank 1 has not begun. Rank 1 ends the previous pass, and no rank waits."""
    order = gather_order.GatherOrder(["a", "b"], None)

    def one_pass(number):
        order.record(number)
        order.end_pass()

    for _ in range(4):
        one_pass(0)
    dist.barrier()
    before, gather_order.PATIENCE = gather_order.PATIENCE, timedelta(seconds=2)
    try:
        if dist.get_rank() == 0:
            one_pass(0)
            order.record(1)
            dist.barrier()
            order.end_pass()
        else:
            dist.barrier()
            one_pass(0)
            one_pass(1)
    finally:
        gather_order.PATIENCE = before
    return True


def test_a_rank_that_is_ahead_asks_about_its_own_pass():
    assert shardlab.run(ahead, ranks=2, timeout=60) == [True, True]
