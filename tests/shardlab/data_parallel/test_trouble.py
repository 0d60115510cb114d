"""Trouble on one rank raises a sentence on every rank that names the parameter. No weight changes, no rank hangs."""

import re

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs import traffic
from shardlab.data_parallel.compression import QSGD, OneBit, TernGrad, TopK, mean_of_messages
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3, ZeroPlusPlus
from torch import nn

from tests.shardlab.data_parallel import twin

ENGINES = {"zero1": Zero1, "zero2": Zero2, "zero3": Zero3, "zero++": ZeroPlusPlus}
CODECS = {"top-k": TopK(0.1), "1-bit": OneBit(), "terngrad": TernGrad(), "qsgd": QSGD(7, 16)}
NAMED = "blocks.1.down.weight"


def engine(name, **options):
    """A function to call, an optimizer to step, and a function that drops gradients."""
    model = twin.new_model()
    if name == "ddp":
        wrapped = DataParallel(model, bucket_bytes=400, first_bucket_bytes=100, **options)
        optimizer = torch.optim.AdamW(wrapped.parameters(), lr=0.05)
        return model, wrapped, optimizer
    options |= {"bucket_bytes": 400, "first_bucket_bytes": 100} if name == "zero2" else {}
    options |= {"units": list(model.blocks)} if name in ("zero3", "zero++") else {}
    options |= {"quantized_weights": True, "quantized_gradients": True} if name == "zero++" else {}
    return model, model, ENGINES[name](model, torch.optim.AdamW, lr=0.05, **options)


def step(call, optimizer, number=0):
    rank, size = dist.get_rank(), dist.get_world_size()
    optimizer.zero_grad()
    loss = twin.loss_of(call, *(twin.own_part(t, rank, size) for t in twin.batch(number, size)))
    loss.backward()
    optimizer.step()


def weights_of(model, optimizer):
    if isinstance(optimizer, ShardedOptimizer):
        return optimizer.full_parameters()
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def add(model):
    model.blocks[1].more = nn.Parameter(torch.ones(3).double())


def replace(model):
    model.blocks[1].down.weight = nn.Parameter(torch.ones(twin.WIDTH, 7).double())


def resize(model):
    model.blocks[1].down.weight.data = torch.ones(twin.WIDTH, 8).double()


def freeze(model):
    model.blocks[1].down.weight.requires_grad_(False)


def thaw(model):
    model.blocks[1].up.bias.requires_grad_(True)


def move(model):
    model.blocks[1].down.weight.data = torch.ones(twin.WIDTH, 7)


def remove(model):
    model.blocks[1].down.weight = None


CHANGES = {
    add: r"blocks\.1\.more \[3\] was added",
    replace: r"blocks\.1\.down\.weight was replaced by another parameter",
    resize: r"blocks\.1\.down\.weight was of shape \[6, 7\] and became of shape \[6, 8\]",
    freeze: r"blocks\.1\.down\.weight was trainable and became frozen",
    thaw: r"blocks\.1\.up\.bias was frozen and became trainable",
    move: r"blocks\.1\.down\.weight was torch.float64 and became torch.float32",
    remove: r"blocks\.1\.down\.weight was removed",
}


def change_and_step(name, change, who):
    model, call, optimizer = engine(name)
    step(call, optimizer)
    if dist.get_rank() in who:
        change(model)
    try:
        optimizer.zero_grad()
        if name == "zero1" and change in (resize, move, remove) and dist.get_rank() in who:
            optimizer.step()  # a forward is not possible with it
        step(call, optimizer)
    except ValueError as error:
        return str(error)
    return "stepped"


@pytest.mark.parametrize("who", [(1,), (0, 1, 2)], ids=["one-rank", "all-ranks"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", ["ddp", "zero1", "zero2", "zero3"])
def test_a_model_that_was_changed_after_wrapping(name, change, who):
    sentences = shardlab.run(change_and_step, name, change, who, ranks=3, timeout=30)
    assert len(set(sentences)) == 1
    assert re.search(rf"rank {who[0]}: {CHANGES[change]} after the model was wrapped", sentences[0]), sentences[0]


def turn_into_bfloat16(name):
    model, call, optimizer = engine(name)
    try:
        model.to(torch.bfloat16)
        step(call, optimizer)
    except ValueError as error:
        return str(error)
    return "stepped"


@pytest.mark.parametrize("name", ["ddp", "zero1", "zero2", "zero3"])
def test_a_model_that_was_turned_into_another_type(name):
    due = "cannot be moved or converted" if name == "zero3" else "was torch.float64 and became torch.bfloat16"
    for sentence in shardlab.run(turn_into_bfloat16, name, ranks=2, timeout=30):
        assert due in sentence


def read_freed_weights():
    model, call, optimizer = engine("zero3")
    step(call, optimizer)
    with pytest.raises(ValueError, match="are sharded over all ranks"):
        model.state_dict()
    with optimizer.gathered():
        found = {name: value.clone() for name, value in model.state_dict(keep_vars=False).items() if "head" not in name}
    return twin.largest_difference(found, {n: v for n, v in optimizer.full_parameters().items() if n in found})


def test_freed_weights_are_not_read():
    assert shardlab.run(read_freed_weights, ranks=2) == [0, 0]


def other_memory(name):
    model, call, optimizer = engine(name)
    if dist.get_rank() == 0:
        weight = model.blocks[1].down.weight
        weight.data = torch.ones_like(weight)
    try:
        step(call, optimizer)
    except ValueError as error:
        return str(error)
    return "stepped"


@pytest.mark.parametrize("name", ["zero1", "zero2", "zero3", "zero++"])
def test_a_parameter_that_no_longer_lies_in_its_vector(name):
    for sentence in shardlab.run(other_memory, name, ranks=2, timeout=30):
        assert f"rank 0: {NAMED} was given other memory" in sentence


def poison(model, where, value):
    """From now on, the gradient of one element of one parameter is `value`."""
    parameter = dict(model.named_parameters())[where]

    def hook(gradient):
        gradient = gradient.clone()
        gradient.view(-1)[-1] = value
        return gradient

    return parameter.register_hook(hook)


def bad_gradient(name, who, value, options):
    model, call, optimizer = engine(name, **options)
    step(call, optimizer)
    before = weights_of(model, optimizer)
    if dist.get_rank() in who:
        poison(model, NAMED, value)
    said = "stepped"
    try:
        step(call, optimizer, 1)
    except ValueError as error:
        said = str(error)
    return said, twin.largest_difference(before, weights_of(model, optimizer)) == 0


@pytest.mark.parametrize("who", [(1,), (0, 2)], ids=["one-rank", "two-ranks"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["ddp", *ENGINES])
def test_a_gradient_that_is_no_number_stops_every_rank_before_it_steps(name, value, who):
    for sentence, stayed in shardlab.run(bad_gradient, name, who, value, {}, ranks=3, timeout=60):
        for rank in who:
            assert f"rank {rank}: the gradient of {NAMED} is infinite or not a number" in sentence
        assert sentence.count("rank ") == len(who)
        assert stayed


def after_trouble(name, who):
    """Two good steps, with or without a bad one between them."""
    model, call, optimizer = engine(name)
    step(call, optimizer)
    handle = poison(model, NAMED, float("nan")) if dist.get_rank() in who else None
    if who:
        with pytest.raises(ValueError, match="not a number"):
            step(call, optimizer, 1)
    if handle is not None:
        handle.remove()
    step(call, optimizer, 2)
    return weights_of(model, optimizer)


@pytest.mark.parametrize("name", ["ddp", *ENGINES])
def test_trouble_leaves_nothing_behind(name):
    due = shardlab.run(after_trouble, name, (), ranks=2, timeout=60)[0]
    for weights in shardlab.run(after_trouble, name, (1,), ranks=2, timeout=60):
        assert twin.largest_difference(weights, due) == 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_gradient_that_is_no_number_stops_every_rank(codec):
    options = {"reduce": mean_of_messages(CODECS[codec], error_feedback=True)}
    for sentence, stayed in shardlab.run(bad_gradient, "ddp", (1,), float("nan"), options, ranks=2):
        assert f"rank 1: the gradient of {NAMED} is infinite or not a number" in sentence
        assert stayed


def whole_loss(name):
    _, call, optimizer = engine(name)
    loss = twin.loss_of(call, *twin.batch(0, 1)) * (float("nan") if dist.get_rank() == 1 else 1.0)
    with pytest.raises(ValueError, match=r"rank 1: the gradient of \S+, and of \d+ more, is infinite or not a number"):
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("name", ["ddp", *ENGINES])
def test_a_nan_loss_names_one_parameter_and_counts_the_others(name):
    shardlab.run(whole_loss, name, ranks=2, timeout=30)


def unlooked(name):
    model, call, optimizer = engine(name, check_finite=False)
    if dist.get_rank() == 1:
        poison(model, NAMED, float("nan"))
    step(call, optimizer)
    return weights_of(model, optimizer)[NAMED].isnan().sum().item()


@pytest.mark.parametrize("name", ["ddp", "zero1", "zero2", "zero3"])
def test_whoever_does_not_want_to_know_gets_what_torch_gives(name):
    assert shardlab.run(unlooked, name, ranks=2) == [1, 1]


def bytes_of_a_step(name, check_finite):
    model, call, optimizer = engine(name, check_finite=check_finite)
    with meter.record() as bill:
        twin.loss_of(call, *twin.batch(0, 1)).backward()
        optimizer.step()
    return bill.sent_bytes, bill.kinds, sum(p.numel() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("name", ["ddp", "zero1", "zero2", "zero3"])
def test_the_alarm_costs_no_byte_and_no_call(name):
    quiet, watched = (shardlab.run(bytes_of_a_step, name, is_on, ranks=2)[0] for is_on in (False, True))
    assert quiet == watched
    if name == "ddp":
        assert watched[0] == traffic.zero_bytes(2, 8 * watched[2], 0)


def one_sided_zero(name):
    model = twin.new_model(with_unused=True)
    zero = ENGINES[name](model, torch.optim.SGD, lr=0.1)
    loss = twin.loss_of(model, *twin.batch(0, 1)) + (model.unused.sum() if dist.get_rank() == 0 else 0.0)
    loss.backward()
    zero.step()
    return model.unused.detach()


@pytest.mark.parametrize("name", ["zero1", "zero2"])
def test_what_one_rank_alone_uses_counts_as_zero_on_the_others(name):
    for unused in shardlab.run(one_sided_zero, name, ranks=2):
        assert torch.allclose(unused, torch.full((5,), 1 - 0.1 / 2).double())


def hybrid(name):
    nodes, across = ([dist.new_group(ranks) for ranks in two] for two in (([0, 1], [2, 3]), ([0, 2], [1, 3])))
    rank = dist.get_rank()
    model, call, optimizer = engine(name, group=nodes[rank // 2], replicas=across[rank % 2])
    step(call, optimizer)
    if rank == 3:
        freeze(model)
    try:
        step(call, optimizer)
    except ValueError as error:
        return str(error)
    return "stepped"


@pytest.mark.parametrize("name", ["zero1", "zero2", "zero3"])
def test_other_nodes_hear_of_it_too(name):
    for sentence in shardlab.run(hybrid, name, ranks=4, timeout=30):
        assert f"{NAMED} was trainable and became frozen" in sentence
