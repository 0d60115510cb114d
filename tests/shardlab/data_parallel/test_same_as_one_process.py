"""Data parallelism is one process: by example, on generated models, and in the experiment."""

import time
from pathlib import Path

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.emulated import EmulatedLayer, over_link
from shardlab.data_parallel.experiment import build, predicted, train
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from shardlab.model.gpt import GPT, GPTConfig
from shardlab.model.text import batch_of, read_text
from torch import nn
from torch.nn import functional

from tests.shardlab.data_parallel import twin
from tests.shardlab.data_parallel.wrapped import WRAPPERS, compare_all
from tests.shardlab.generated.cases import model_case

# ---- After twenty steps every rank's weights match one process, for DDP and all ZeRO stages. -------------------------

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


# ---- Generated models in every data-parallel wrapper: losses, gradients and weights match one process. ---------------

SEEDS = {2: range(22), 3: range(22, 30)}  # by ranks


@pytest.mark.parametrize("ranks", SEEDS)
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_same_as_one_process(wrapper, ranks):
    for different in shardlab.run(compare_all, wrapper, SEEDS[ranks], ranks=ranks, timeout=300, observe=False):
        assert not different, different


def branches_in_a_recomputed_block(seed: int) -> bool:
    """Whether ranks take different branches in a block recomputed as a whole, where no hook sees the start."""
    case = model_case(seed, same_routes=True)
    blocks = {
        number for number, plan in enumerate(case.blocks) if plan.branch and plan.recomputed.startswith("outside")
    }
    used = [one for step in case.microbatches for one in step if blocks & {*one.routes[0]}]
    return any(len(set(one.both)) > 1 for one in used)


@pytest.mark.parametrize("wrapper", ["zero3", "zero++"])
def test_branches_of_a_recomputed_block_reduce_in_one_order(wrapper):
    seeds = [169, *list(filter(branches_in_a_recomputed_block, range(100, 160)))[:7]]
    assert len(seeds) == 8
    for different in shardlab.run(compare_all, wrapper, seeds, ranks=2, timeout=300, observe=False):
        assert not different, different


def test_a_seed_draws_the_same_case_every_time():
    first, second = model_case(7), model_case(7)
    assert first.blocks == second.blocks
    for one, other in zip(first.new_model().parameters(), second.new_model().parameters(), strict=True):
        assert one.equal(other)


def test_the_seeds_have_all_that_makes_sharding_hard():
    cases = [model_case(seed) for seeds in SEEDS.values() for seed in seeds]
    plans = [plan for case in cases for plan in case.blocks]
    for trait in ("branch", "aside", "tied", "scalar", "empty", "single", "buffer", "uses_extra"):
        assert any(getattr(plan, trait) for plan in plans), trait
    assert {plan.recomputed for plan in plans} == {"no", "inside", "outside", "inside, nested", "outside, nested"}
    assert {plan.frozen for plan in plans} == {"nothing", "bias", "all"}
    routes = [(case, route) for case in cases for step in case.microbatches for one in step for route in one.routes]
    assert any(len(set(route)) < len(route) for _, route in routes)  # a block used twice
    assert any(len(set(route)) < len(case.blocks) for case, route in routes)  # a block left out
    assert any(not one.is_synchronized for case in cases for step in case.microbatches for one in step)
    assert {case.losses_apart for case in cases} == {True, False}


# ---- Lab 3's numbers: predicted and measured bytes are equal, all stages learn the same, and the loss goes down. -----

DOCS = Path(__file__).parents[3] / "docs"
# Not the text of docs/, which changes.
TEXT = torch.tensor(list(b"One rank sends, another receives; no rank may wait forever.\n" * 200))
SMALL = GPTConfig(layers=2, hidden=24, heads=2, sequence=16)


def measure(stage, config, steps):
    return train(build(stage, config, None), config, TEXT, steps=steps, batch=2)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_predicted_bytes_are_measured(stage, ranks):
    due = predicted(SMALL, stage, ranks)
    for one in shardlab.run(measure, stage, SMALL, 1, ranks=ranks, timeout=60):
        assert one.sent_bytes == due.sent_bytes
        assert (one.held.parameters, one.held.gradients) == (due.held.parameters, due.held.gradients)
        assert one.held.optimizer_state == due.held.optimizer
        assert 0 < one.exposed < one.seconds


@pytest.mark.slow
def test_ten_million_parameters_to_the_byte():
    config = GPTConfig(layers=12, hidden=256, heads=8, sequence=32, vocabulary=256)
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in GPT(config).parameters()) > 9.5e6
    due = predicted(config, 3, 2)
    for one in shardlab.run(measure, 3, config, 1, ranks=2, timeout=120):
        assert one.sent_bytes == due.sent_bytes
        assert one.held.total == due.held.total


@pytest.mark.slow
def test_all_stages_learn_the_same():
    first, *others = (shardlab.run(measure, stage, SMALL, 6, ranks=2, timeout=60)[0].losses for stage in range(4))
    assert first[-1] < first[0] - 0.2
    for losses in others:
        assert losses == pytest.approx(first, abs=1e-5)


def test_batches_differ_by_step_and_rank_and_targets_are_the_next_tokens():
    text = read_text(DOCS)
    tokens, targets = batch_of(text, step=1, rank=0, batch=3, sequence=8)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])
    assert not torch.equal(tokens, batch_of(text, step=1, rank=1, batch=3, sequence=8)[0])
    assert not torch.equal(tokens, batch_of(text, step=2, rank=0, batch=3, sequence=8)[0])


def test_too_little_text_and_heads_that_do_not_divide_are_refused(tmp_path):
    with pytest.raises(ValueError, match="10,000 or more"):
        read_text(tmp_path)
    with pytest.raises(ValueError, match=r"use one of \[1, 2, 4"):
        GPTConfig(hidden=32, heads=3)


# ---- Layers that sleep and a slow link: the same gradients, and never faster than the emulated time. -----------------


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
