"""Other courses' interfaces for these classes: a few lines around ours must be enough."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.zero import Zero3
from torch import nn

from tests.shardlab.data_parallel import twin

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
