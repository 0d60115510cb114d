"""A suite as another course might write it. It accesses our classes only through the five functions at the top.

The functions have the names and arguments that such assignments require. The models below are uneven and tied, and
every rank starts with different weights.
"""

import copy

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.sharded_optimizer import ShardedOptimizer
from shardlab.data_parallel.zero import Zero3
from torch import nn

# ---- the thin adapter ------------------------------------------------------------------------------------------------


def get_ddp(module, bucket_size_mb=25.0):
    return DataParallel(module, bucket_bytes=max(1, int(bucket_size_mb * 2**20)))


def ddp_on_after_backward(ddp_model, optimizer):
    ddp_model.finish()


def get_sharded_optimizer(params, optimizer_cls, **kwargs):
    return ShardedOptimizer(params, optimizer_cls, **kwargs)


class Fsdp(nn.Module):
    """A module with `.module` inside, whose `parameters()` are this rank's slices, for any torch optimizer."""

    def __init__(self, module, compute_dtype):
        super().__init__()
        units = [part for part in module.modules() if list(part.parameters(recurse=False)) and part is not module]
        self.zero = Zero3(module, torch.optim.SGD, units=units, compute_dtype=compute_dtype)
        self.module = module

    def forward(self, *inputs):
        self.zero.all_gather_params()  # the optimizer has updated the masters
        return self.module(*inputs)

    def parameters(self, recurse=True):
        return (vector.master for vector in self.zero.vectors)


def get_fsdp(module, compute_dtype=None):
    return Fsdp(module, compute_dtype)


def fsdp_on_after_backward(fsdp_model, optimizer):
    for vector, gradient in zip(fsdp_model.zero.vectors, fsdp_model.zero.gradients.shards(), strict=True):
        vector.take_gradient(gradient)
    fsdp_model.zero.zero_grad()


def fsdp_gather_full_params(fsdp_model):
    return fsdp_model.zero.full_parameters()


# ---- the suite -------------------------------------------------------------------------------------------------------


class ToyModel(nn.Module):
    """Uneven layers, one without a bias, and a frozen parameter."""

    def __init__(self):
        super().__init__()
        self.fc1, self.ln = nn.Linear(10, 13, bias=False), nn.LayerNorm(13)
        self.fc2, self.fc3 = nn.Linear(13, 50), nn.Linear(50, 5)
        self.fixed = nn.Parameter(torch.tensor([2.0, 2.0]), requires_grad=False)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(self.ln(self.fc1(x)))))


class TiedToyModel(nn.Module):
    """Three layers, of which the first and last share one matrix."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = (nn.Linear(7, 7, bias=bias) for bias in (False, True, False))
        self.last = nn.Linear(7, 5)
        self.fc3.weight = self.fc1.weight
        self.project = nn.Linear(10, 7)

    def forward(self, x):
        return self.last(self.fc3(torch.tanh(self.fc2(self.fc1(self.project(x))))))


MODELS = (ToyModel, TiedToyModel)


def batches(num_ranks):
    torch.manual_seed(42)
    for _ in range(6):
        yield torch.randn(5 * num_ranks, 10), torch.randn(5 * num_ranks, 5)


def mine(tensor):
    return tensor.chunk(dist.get_world_size())[dist.get_rank()]


def alone_and(wrap, model_class):
    """The first rank's model in one process, and a wrapped model that starts with different weights."""
    torch.manual_seed(dist.get_rank())
    model = model_class()
    alone = copy.deepcopy(model)
    for tensor in alone.state_dict().values():
        dist.broadcast(tensor, 0)
    return alone, wrap(model)


def ddp_case(model_class, bucket_size_mb):
    alone, ddp = alone_and(lambda module: get_ddp(module, bucket_size_mb), model_class)
    for one, other in zip(alone.parameters(), ddp.module.parameters(), strict=True):
        assert torch.equal(one, other)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.1) for model in (alone, ddp)]
    for x, y in batches(dist.get_world_size()):
        for optimizer in optimizers:
            optimizer.zero_grad()
        nn.functional.mse_loss(alone(x), y).backward()
        nn.functional.mse_loss(ddp(mine(x)), mine(y)).backward()
        ddp_on_after_backward(ddp, optimizers[1])
        for optimizer in optimizers:
            optimizer.step()
        for one, other in zip(alone.parameters(), ddp.module.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    return {name: value.detach() for name, value in ddp.module.named_parameters()}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("bucket_size_mb", [0.0001, 0.01, 25])
@pytest.mark.parametrize("model_class", MODELS)
def test_ddp(model_class, bucket_size_mb, ranks):
    first, *others = shardlab.run(ddp_case, model_class, bucket_size_mb, ranks=ranks, timeout=60)
    for weights in others:
        assert all(torch.equal(first[name], weights[name]) for name in first)


def sharded_case(model_class, optimizer_cls, kwargs):
    torch.manual_seed(42)
    models = [model_class() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [optimizer_cls(models[0].parameters(), **kwargs)]
    optimizers.append(get_sharded_optimizer(models[1].parameters(), optimizer_cls, **kwargs))
    for x, y in batches(1):
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("model_class", MODELS)
@pytest.mark.parametrize(
    ("optimizer_cls", "kwargs"),
    [
        (torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.1, "betas": (0.9, 0.999), "eps": 1e-8}),
        (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    ],
)
def test_sharded_optimizer(model_class, optimizer_cls, kwargs, ranks):
    shardlab.run(sharded_case, model_class, optimizer_cls, kwargs, ranks=ranks, timeout=60)


def fsdp_case(model_class, compute_dtype):
    alone, fsdp = alone_and(lambda module: get_fsdp(module, compute_dtype), model_class)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.01) for model in (alone, fsdp)]
    slices = sum(parameter.numel() for parameter in fsdp.parameters())
    for x, y in batches(dist.get_world_size()):
        for optimizer in optimizers:
            optimizer.zero_grad()
        nn.functional.mse_loss(alone(x), y).backward()
        given = mine(x) if compute_dtype is None else mine(x).to(compute_dtype)
        nn.functional.mse_loss(fsdp(given).float(), mine(y)).backward()
        fsdp_on_after_backward(fsdp, optimizers[1])
        for optimizer in optimizers:
            optimizer.step()
    fsdp.zero.all_gather_params()
    full = fsdp_gather_full_params(fsdp)
    due = dict(alone.named_parameters())
    assert list(full) == list(due)
    tolerance = 1e-5 if compute_dtype is None else 0.05
    for name, value in due.items():
        assert full[name].shape == value.shape
        torch.testing.assert_close(full[name].float(), value.detach(), rtol=tolerance, atol=tolerance)
    trained = sum(parameter.numel() for parameter in due.values() if parameter.requires_grad)
    return slices, trained, len(fsdp.zero.vectors)


@pytest.mark.parametrize("compute_dtype", [None, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("model_class", MODELS)
def test_fsdp(model_class, ranks, compute_dtype):
    for slices, whole, num_units in shardlab.run(fsdp_case, model_class, compute_dtype, ranks=ranks, timeout=60):
        assert whole / ranks <= slices < whole / ranks + num_units
