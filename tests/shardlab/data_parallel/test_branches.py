"""Models with branches, empty parameters and batch norm."""

import copy

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel import checkpoint
from shardlab.data_parallel.compression import QSGD, OneBit, TernGrad, TopK, mean_of_messages
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.flat import WholeParameters
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3, ZeroPlusPlus
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

# ---- Steps that use other units than the first step, on all ranks: the weights match one process. --------------------

WIDTH, RANKS = 6, 2
EVALUATED, TRAINED = [1, 2], [0, 1, 0, 2, 2, 0]  # branches: the first step uses only branch 0


class Branches(nn.Module):
    """One of three alternative layers, between two layers that every step uses."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.branches = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x_BH: Tensor, branch: int) -> Tensor:
        return self.last(torch.tanh(self.branches[branch](torch.tanh(self.first(x_BH)))))


def new_model():
    torch.manual_seed(3)
    return Branches().double()


def batch(step):
    return torch.randn(2 * RANKS, WIDTH, generator=torch.Generator().manual_seed(step), dtype=torch.float64)


def trained_alone():
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, branch in enumerate(TRAINED):
        optimizer.zero_grad()
        model(batch(step), branch).square().mean().backward()
        optimizer.step()
    return model(batch(9), 1).detach(), {name: one.detach() for name, one in model.named_parameters()}


def trained(prefetch, reshard_after_forward):
    model = new_model()
    units = [model.first, *model.branches, model.last]
    options = {"prefetch": prefetch, "reshard_after_forward": reshard_after_forward}
    zero = Zero3(model, torch.optim.SGD, units=units, lr=0.1, **options)
    rank = dist.get_rank()
    for step, branch in enumerate(TRAINED):
        zero.zero_grad()
        model(batch(step).chunk(RANKS)[rank], branch).square().mean().backward()
        zero.step()
        with torch.no_grad():
            for other in EVALUATED:
                model(batch(step), other)
    with torch.no_grad():
        output = model(batch(9), 1)
    return output, zero.full_parameters()


@pytest.mark.parametrize("reshard_after_forward", [True, False])
@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_another_branch_is_evaluated_and_trained(prefetch, reshard_after_forward):
    due, weights = trained_alone()
    for output, mine in shardlab.run(trained, prefetch, reshard_after_forward, ranks=RANKS, timeout=60):
        torch.testing.assert_close(output, due, rtol=0, atol=1e-12)
        for name, weight in weights.items():
            torch.testing.assert_close(mine[name], weight, rtol=0, atol=1e-12)


# ---- Empty and zero-dimensional parameters, alone in a bucket or vector or together with others. ---------------------

KINDS = {"zero1": Zero1, "zero2": Zero2, "zero3": Zero3, "zero++": ZeroPlusPlus}
TINY = {"bucket_bytes": 1, "first_bucket_bytes": 1}
OPTIONS = [
    ("ddp", {}),
    ("ddp", TINY),
    *(("ddp", TINY | {"codec": codec}) for codec in (TopK(0.5), OneBit(), TernGrad(), QSGD(7, 16))),
    ("zero1", {}),
    ("zero1", {"layout": WholeParameters}),
    ("zero2", {}),
    ("zero2", TINY),
    ("zero3", {}),
    ("zero3", {"prefetch": 0, "reshard_after_forward": False}),
    ("zero++", {"quantized_weights": True, "quantized_gradients": True}),
    ("zero++", {"has_node": True}),
]


class Only(nn.Module):
    """A unit with only an empty parameter."""

    def __init__(self):
        super().__init__()
        self.empty = nn.Parameter(torch.empty(0, 3))

    def forward(self, x):
        return x + self.empty.sum()


class Net(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.only = nn.Linear(3, 3), Only()
        self.empty, self.scalar = (nn.Parameter(torch.ones(shape, dtype=dtype)) for shape in ((0, 3), ()))
        self.vanished = nn.Linear(3, 0)

    def forward(self, x):
        x = self.only(self.layer(x))
        return x.square().sum() * self.scalar.float() + self.empty.sum().float() + self.vanished(x).sum()


def new_zero(name, model, options):
    options = dict(options)
    if options.pop("has_node", False):
        options["node"] = dist.group.WORLD
    units = {"units": [model.layer, model.only, model.vanished]} if name in ("zero3", "zero++") else {}
    return KINDS[name](model, torch.optim.AdamW, lr=0.05, **units, **options)


def weights_of(zero, model):
    return zero.full_parameters() if hasattr(zero, "module") else {n: p.detach() for n, p in model.named_parameters()}


def trained_empty_parameters(name, options):
    """The largest difference from one process after three steps with clipping, for two dtypes."""
    x, worst = torch.arange(6.0).view(2, 3) / 6, 0.0
    options = dict(options)
    codec = options.pop("codec", None)
    for dtype in (torch.float32, torch.float64):
        model = Net(dtype)
        alone = copy.deepcopy(model)
        if name == "ddp":
            reduce = None if codec is None else mean_of_messages(codec, error_feedback=True)
            call = DataParallel(model, reduce=reduce, **options)
            optimizer = ShardedOptimizer(model.parameters(), torch.optim.AdamW, lr=0.05)
        else:
            call, optimizer = model, new_zero(name, model, options)
        one = torch.optim.AdamW(alone.parameters(), lr=0.05)
        for _ in range(3):
            optimizer.zero_grad()
            one.zero_grad()
            call(x).backward()
            alone(x).backward()
            optimizer.step(max_norm=0.5)
            nn.utils.clip_grad_norm_(alone.parameters(), 0.5)
            one.step()
        found = weights_of(optimizer, model)
        for name_of, due in alone.named_parameters():
            assert found[name_of].shape == due.shape
            worst = max([worst, *(found[name_of] - due).abs().view(-1).tolist()])
    return 0.0 if codec or options.get("quantized_weights") else worst  # these round the numbers


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=lambda value: str(value).replace("torch.", ""))
def test_they_train_as_on_one_process(name, options):
    assert max(shardlab.run(trained_empty_parameters, name, options, ranks=2, timeout=60)) < 1e-5


def saved_and_loaded(name, folder):
    """Weights after a save, two steps and a load, and the weights that were saved."""
    model = Net(torch.float64)
    zero, x = new_zero(name, model, {}), torch.ones(2, 3)

    def step():
        zero.zero_grad()
        model(x).backward()
        zero.step()

    step()
    saved = {n: p.clone() for n, p in weights_of(zero, model).items()}
    checkpoint.save(zero, folder, step=1)
    step()
    assert checkpoint.load(zero, checkpoint.latest(folder)) == 1
    return all(saved[n].equal(p) for n, p in weights_of(zero, model).items())


@pytest.mark.parametrize("name", ["zero1", "zero2", "zero3"])
def test_they_are_saved_and_loaded(name):
    with checkpoint.temporary() as folder:
        assert shardlab.run(saved_and_loaded, name, folder, ranks=2, timeout=60) == [True, True]


# ---- Under every ZeRO stage, BatchNorm's running means are those of the first rank, as with DDP. ---------------------

RANKS_BATCH_NORM, STEPS = 2, 3


def normalised():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)).double()


def batch_batch_norm(step):
    generator = torch.Generator().manual_seed(10 * step + dist.get_rank())
    return torch.randn(6, 4, generator=generator, dtype=torch.float64) + dist.get_rank()


def buffers_under(kind, same):
    """Buffers after some steps and the start of another forward, as an evaluation would find them."""
    model = normalised()
    if kind is DistributedDataParallel:
        passes, steps = DistributedDataParallel(model), None
        steps = torch.optim.SGD(model.parameters(), lr=0.1)
    else:
        units = {"units": [model[0], model[1], model[2]]} if kind is Zero3 else {}
        passes, steps = model, kind(model, torch.optim.SGD, lr=0.1, same_buffers=same, **units)
    for step in range(STEPS):
        passes(batch_batch_norm(step)).square().mean().backward()
        steps.step()
        steps.zero_grad()
    return {name: buffer.clone() for name, buffer in model.named_buffers()}


@pytest.mark.parametrize("kind", [Zero1, Zero2, Zero3])
def test_means_are_ddps(kind):
    due = shardlab.run(buffers_under, DistributedDataParallel, True, ranks=RANKS_BATCH_NORM, timeout=60)
    ours = shardlab.run(buffers_under, kind, True, ranks=RANKS_BATCH_NORM, timeout=60)
    for mine, theirs in zip(ours, due, strict=True):
        for name, buffer in theirs.items():
            torch.testing.assert_close(mine[name], buffer, rtol=0, atol=1e-12)


def test_without_it_each_rank_has_means_of_its_own():
    first, second = shardlab.run(buffers_under, Zero1, False, ranks=RANKS_BATCH_NORM, timeout=60)
    assert (first["1.running_mean"] - second["1.running_mean"]).abs().max() > 0.1
