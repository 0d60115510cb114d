"""After twenty steps every rank's weights match one process, for DDP and all ZeRO stages."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from torch.nn import functional

from tests.shardlab.data_parallel import twin

ADAMW = {"lr": 0.05, "weight_decay": 0.1}
TOLERANCE = 1e-12  # float64; only the order of sums differs
ENGINES = {"zero1": Zero1, "zero2": Zero2, "zero3": Zero3}


def train_with_ddp(optimizer_class, options):
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DataParallel(twin.new_model(seed=rank), bucket_bytes=400, first_bucket_bytes=100)
    model.module.load_state_dict(twin.new_model().state_dict())
    optimizer = optimizer_class(model.parameters(), **options)
    for step in range(twin.STEPS):
        optimizer.zero_grad()
        twin.loss_of(model, *(twin.own_part(t, rank, size) for t in twin.batch(step, size))).backward()
        optimizer.step()
    return {name: parameter.detach() for name, parameter in model.module.named_parameters()}


def train_with_zero(stage, optimizer_class, options, max_norm, microbatches):
    rank, size = dist.get_rank(), dist.get_world_size()
    model = twin.new_model(seed=0)
    if rank > 0:  # rank 0's weights are used
        for parameter in model.parameters():
            parameter.data += rank
    more = {"bucket_bytes": 400, "first_bucket_bytes": 100} if stage == "zero2" else {}
    more |= {"units": list(model.blocks)} if stage == "zero3" else {}
    zero = ENGINES[stage](model, optimizer_class, **more, **options)
    for step in range(twin.STEPS):
        tokens, targets = (twin.own_part(t, rank, size) for t in twin.batch(step, size))
        for some, goals in zip(tokens.chunk(microbatches), targets.chunk(microbatches), strict=True):
            (twin.loss_of(model, some, goals) / microbatches).backward()
        zero.step(max_norm=max_norm)
        zero.zero_grad()
    if stage == "zero3":
        return zero.full_parameters()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ddp(ranks):
    alone, _ = twin.trained_alone(ranks, **ADAMW)
    for weights in shardlab.run(train_with_ddp, torch.optim.AdamW, ADAMW, ranks=ranks, timeout=60):
        assert twin.largest_difference(weights, alone) < TOLERANCE


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("stage", ENGINES)
def test_zero(stage, ranks):
    alone, _ = twin.trained_alone(ranks, max_norm=0.5, **ADAMW)
    for weights in shardlab.run(train_with_zero, stage, torch.optim.AdamW, ADAMW, 0.5, 1, ranks=ranks, timeout=60):
        assert twin.largest_difference(weights, alone) < TOLERANCE


@pytest.mark.parametrize("stage", ENGINES)
def test_gradients_of_microbatches_add_up(stage):
    alone, _ = twin.trained_alone(2, **ADAMW)
    for weights in shardlab.run(train_with_zero, stage, torch.optim.AdamW, ADAMW, None, 3, ranks=2, timeout=60):
        assert twin.largest_difference(weights, alone) < TOLERANCE


@pytest.mark.parametrize("name", ["SGD", "Adam", "NAdam", "RAdam", "Adagrad", "Adadelta", "Adamax", "ASGD", "RMSprop"])
def test_optimizers_that_treat_each_number_by_itself(name):
    optimizer_class, options = getattr(torch.optim, name), {"lr": 0.01}
    alone, _ = twin.trained_alone(2, optimizer_class, **options)
    for weights in shardlab.run(train_with_zero, "zero3", optimizer_class, options, None, 1, ranks=2, timeout=60):
        assert twin.largest_difference(weights, alone) < 1e-10


GENTLE = ADAMW | {"lr": 0.01}
UNEVEN = (4, 1)  # rows of the two ranks in the last batch


def train_unevenly(stage):
    """The last of three batches has uneven rows. A rank's loss is its sum times N, divided by the rows of all ranks."""
    rank = dist.get_rank()
    model = twin.new_model().float()
    zero = None if stage == "ddp" else build_float(stage, model)
    wrapped = DataParallel(model) if zero is None else model
    optimizer = torch.optim.AdamW(model.parameters(), **GENTLE) if zero is None else zero
    for step in range(20):
        tokens, targets = twin.batch(step, 2)
        rows = UNEVEN if step % 3 == 2 else (3, 3)
        mine = slice(0, rows[0]) if rank == 0 else slice(rows[0], sum(rows))
        loss = functional.cross_entropy(wrapped(tokens[mine]), targets[mine], reduction="sum") * 2 / sum(rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return zero.full_parameters() if stage == "zero3" else {n: p.detach() for n, p in model.named_parameters()}


def build_float(stage, model):
    more = {"units": list(model.blocks)} if stage == "zero3" else {}
    return ENGINES[stage](model, torch.optim.AdamW, **more, **GENTLE)


@pytest.mark.parametrize("stage", ["ddp", *ENGINES])
def test_an_uneven_last_batch_in_single_precision(stage):
    alone = twin.new_model().float()
    optimizer = torch.optim.AdamW(alone.parameters(), **GENTLE)
    for step in range(20):
        tokens, targets = twin.batch(step, 2)
        rows = sum(UNEVEN) if step % 3 == 2 else 6
        optimizer.zero_grad()
        twin.loss_of(alone, tokens[:rows], targets[:rows]).backward()
        optimizer.step()
    due = {name: parameter.detach() for name, parameter in alone.named_parameters()}
    for weights in shardlab.run(train_unevenly, stage, ranks=2, timeout=60):
        assert twin.largest_difference(weights, due) < 1e-6  # at ADAMW's rate of 0.05, rounding errors grow to 1.5e-6


class Breaks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("half-way")


def train_after_a_backward_that_raised(stage):
    rank, size = dist.get_rank(), dist.get_world_size()
    model = twin.new_model()
    more = {"units": list(model.blocks)} if stage == "zero3" else {}
    zero = ENGINES[stage](model, torch.optim.AdamW, **more, **ADAMW)
    breaking = model.blocks[1].register_forward_hook(lambda module, given, output: Breaks.apply(output))
    with pytest.raises(RuntimeError, match="half-way"):
        twin.loss_of(model, *twin.batch(0, 1)).backward()
    breaking.remove()
    for step in range(twin.STEPS):
        zero.zero_grad()
        twin.loss_of(model, *(twin.own_part(t, rank, size) for t in twin.batch(step, size))).backward()
        zero.step()
    whole = sum(vector.full.untyped_storage().nbytes() for vector in zero.vectors)
    weights = zero.full_parameters() if stage == "zero3" else {n: p.detach() for n, p in model.named_parameters()}
    return weights, whole


@pytest.mark.parametrize("stage", ENGINES)
def test_a_backward_that_raised_leaves_nothing_to_the_next(stage):
    alone, _ = twin.trained_alone(2, **ADAMW)
    for weights, whole in shardlab.run(train_after_a_backward_that_raised, stage, ranks=2, timeout=60):
        assert twin.largest_difference(weights, alone) < TOLERANCE
        assert stage != "zero3" or whole == 0
