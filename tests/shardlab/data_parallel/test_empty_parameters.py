"""Empty and zero-dimensional parameters, alone in a bucket or vector or together with others."""

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
from torch import nn

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


def trained(name, options):
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
    assert max(shardlab.run(trained, name, options, ranks=2, timeout=60)) < 1e-5


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
