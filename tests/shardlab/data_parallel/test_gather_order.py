"""The order of gathers, and a thin adapter."""

from datetime import timedelta

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel import gather_order
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.zero import Zero3, ZeroPlusPlus
from torch import nn

from tests.shardlab.data_parallel import twin
from tests.shardlab.data_parallel.test_branches import WIDTH, new_model

# ---- Ranks that use units of equal size in different orders all raise the same error before any weight changes. ------

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


# ---- Other courses' interfaces for these classes: a few lines around ours must be enough. ----------------------------

TINY = 1e-12


def get_ddp(module):
    return DataParallel(module)


def after_backward(wrapped, optimizer):
    wrapped.finish()


def get_sharded_optimizer(parameters, optimizer_class, **options):
    return ShardedOptimizer(parameters, optimizer_class, **options)


def get_fully_sharded(module, optimizer_class, **options):
    return Zero3(module, optimizer_class, units=list(module.blocks), **options)


def trains_as_one_process(num_ranks):
    rank = dist.get_rank()
    torch.manual_seed(rank)  # every rank starts with different weights
    alone, wrapped = twin.new_model(), get_ddp(twin.TinyModel().double())
    for parameter in wrapped.parameters():
        dist.broadcast(parameter.data, 0)
    alone.load_state_dict(wrapped.module.state_dict())
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (alone, wrapped)]
    for step in range(5):
        tokens, targets = twin.batch(step, num_ranks)
        for model, optimizer in zip((alone, wrapped), optimizers, strict=True):
            optimizer.zero_grad()
            mine = (
                (tokens, targets) if model is alone else [twin.own_part(t, rank, num_ranks) for t in (tokens, targets)]
            )
            twin.loss_of(model, *mine).backward()
            if model is wrapped:
                after_backward(wrapped, optimizer)
            optimizer.step()
        for expected, got in zip(alone.parameters(), wrapped.module.parameters(), strict=True):
            assert (expected - got).abs().max() < TINY
    return sum(parameter.requires_grad for parameter in wrapped.module.parameters())


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_wrapper_with_its_module_inside_and_a_hook_after_backward(ranks):
    assert shardlab.run(trains_as_one_process, ranks, ranks=ranks, timeout=60) == [15] * ranks


def steps_like_the_whole_optimizer():
    models = [twin.new_model() for _ in range(2)]
    whole = torch.optim.AdamW(models[0].parameters(), lr=0.1, weight_decay=0.1, betas=(0.9, 0.99), eps=1e-8)
    shard = get_sharded_optimizer(
        models[1].parameters(), torch.optim.AdamW, lr=0.1, weight_decay=0.1, betas=(0.9, 0.99), eps=1e-8
    )
    for step in range(10):
        for model, optimizer in zip(models, (whole, shard), strict=True):
            optimizer.zero_grad()
            twin.loss_of(model, *twin.batch(step, 2)).backward()
            optimizer.step()
    different = max((a - b).abs().max().item() for a, b in zip(*(m.parameters() for m in models), strict=True))
    return different, shard.held().optimizer_state


def test_a_sharded_optimizer_in_the_place_of_another_shards_its_state():
    states = {ranks: shardlab.run(steps_like_the_whole_optimizer, ranks=ranks, timeout=60) for ranks in (1, 2, 4)}
    for by_rank in states.values():
        assert all(different < TINY for different, _ in by_rank)
    (_, whole), *_ = states[1]
    for ranks in (2, 4):
        assert all(whole / ranks <= held < whole / ranks + 100 for _, held in states[ranks])


def groups_and_closure():
    model = twin.new_model()
    blocks, rest = list(model.blocks.parameters()), [model.embed.weight]
    optimizer = get_sharded_optimizer([{"params": blocks, "lr": 0.0}, {"params": rest}], torch.optim.SGD, lr=0.5)
    before = model.blocks[0].up.weight.clone(), model.embed.weight.clone()

    def closure():
        optimizer.zero_grad()
        loss = twin.loss_of(model, *twin.batch(0, 2))
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    return loss.item(), torch.equal(before[0], model.blocks[0].up.weight), torch.equal(before[1], model.embed.weight)


def test_groups_keep_their_options_and_a_closure_is_called():
    for loss, blocks_stay, embedding_stays in shardlab.run(groups_and_closure, ranks=2):
        assert loss > 0 and blocks_stay and not embedding_stays


def gathers_a_dict():
    model = twin.new_model()
    due = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    found = get_fully_sharded(model, torch.optim.AdamW, lr=0.1).full_parameters()
    return twin.largest_difference(found, due)


def test_full_parameters_are_gathered_by_name():
    assert shardlab.run(gathers_a_dict, ranks=3) == [0.0] * 3


def more_ranks_than_numbers():
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    zero = Zero3(nn.Sequential(model), torch.optim.Adam, units=[model], lr=0.5)
    zero.module(torch.ones(1, 1)).sum().backward()
    zero.step()
    return zero.full_parameters()["0.weight"].item(), zero.held().optimizer_state


def test_more_ranks_than_parameters_leave_some_with_padding_alone():
    for weight, held in shardlab.run(more_ranks_than_numbers, ranks=4):
        assert weight == pytest.approx(0.5)
        assert held == 2 * 4 + 4
