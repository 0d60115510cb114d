"""Build the modules, optimizers and leaf tensors of an exercise, and report their state after the call.

The arguments describe them as plain data (see `autograder.checks.training`). They are built before the first line of
student code and read after the call. The judge builds the same ones to compute expected values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch
from shardlab import meter
from shardlab.ranks.libc import libc
from torch import nn, optim

from autograder.jobs.marked import marked_mlp

RESULT_ALONE = "result alone"  # a report without the arguments, which are large and would not be read
OPTIMIZERS: dict[str, Callable[..., optim.Optimizer]] = {"SGD": optim.SGD, "Adam": optim.Adam, "AdamW": optim.AdamW}


def mlp(widths: Sequence[int], bias: bool = True) -> nn.Module:
    """Linear layers of these widths with ReLUs in between; parameters "0.weight", "0.bias", "2.weight", …"""
    layers: list[nn.Module] = []
    for width_in, width_out in pairwise(widths):
        layers += [nn.Linear(width_in, width_out, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class LanguageModel(nn.Module):
    """Tokens to logits: an embedding, residual two-layer blocks, and a head that is tied to the embedding."""

    def __init__(self, vocabulary: int, width: int, num_blocks: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(mlp([width, 4 * width, width]) for _ in range(num_blocks))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(batch, length) token ids to (batch, length, vocabulary) logits."""
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.head(hidden)


class Chain(nn.Module):
    """Residual square layers, applied in `order`; `parameters()` yields them by layer number."""

    def __init__(self, width: int, order: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in order)
        self.order = order

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """(rows, width) to (rows, width)."""
        for number in self.order:
            rows = rows + self.layers[number](rows)
        return rows


MODULES: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "marked-mlp": marked_mlp,
    "language-model": LanguageModel,
    "chain": Chain,
}


def build(args: Sequence[Any]) -> list[Any]:
    """Build the arguments of a call: replace descriptions with modules, optimizers and leaves."""
    built: list[Any] = []
    for arg in args:
        if not isinstance(arg, dict):
            built.append(arg)
        elif "module" in arg:
            built.append(build_module(arg))
        elif "optimizer" in arg:
            parameters = built[arg["of"]].parameters()
            built.append(OPTIMIZERS[arg["optimizer"]](parameters, **arg["settings"]))
        elif "leaf" in arg:
            built.append(arg["leaf"].clone().requires_grad_())
        else:
            built.append(arg)
    return built


def build_module(plan: dict[str, Any]) -> nn.Module:
    """Build a module with the given weights, or with random ones from a seed: whole numbers or small normal ones."""
    module = MODULES[plan["module"]](**plan["sizes"])
    generator = torch.Generator().manual_seed(plan.get("seed", 0))
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "weights" in plan:
                parameter.copy_(plan["weights"][name])
            elif plan["whole"]:
                parameter.copy_(torch.randint(-2, 3, parameter.shape, generator=generator))
            else:
                parameter.normal_(0, parameter.shape[-1] ** -0.5, generator=generator)
    return module


def settle() -> None:
    """Load the code that a training step needs and release freed memory, so that a peak counts only the answer's."""
    _give_freed_memory_back()
    module = mlp([64, 64, 1])
    for kind in OPTIMIZERS.values():
        optimizer = kind(module.parameters(), lr=0.0)
        module(torch.ones(2, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    del module, optimizer
    trim = getattr(libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def forget_gradients(args: Sequence[Any]) -> None:
    """Clear gradients, as a training loop does between two steps."""
    for module in args:
        if isinstance(module, nn.Module):
            module.zero_grad()


def _give_freed_memory_back() -> None:
    """Make glibc give each tensor separate pages, and return them when the tensor is freed.

    Otherwise small tensors fill the gaps that large ones leave: the peak of the same answer varied by half.
    """
    mallopt = getattr(libc(), "mallopt", None)
    if mallopt is not None:
        mallopt(-4, 1 << 16)  # M_MMAP_MAX, which shardlab's ranks set to 0
        mallopt(-3, 1 << 15)  # M_MMAP_THRESHOLD


def report(args: Sequence[Any], value: Any, wanted: Sequence[str]) -> dict[str, Any]:
    """Weights, gradients and bytes held of all modules passed in or returned, and the gradients of the leaves.

    `wanted` selects "weights" and "grads"; a measurement of memory selects neither.
    """
    objects = [*args, *_items(value)]
    modules = [*dict.fromkeys(one for one in objects if isinstance(one, nn.Module))]
    optimizers = [*dict.fromkeys(one for one in objects if isinstance(one, optim.Optimizer))]
    held = meter.bytes_held(nn.ModuleList(modules))
    return {
        "weights": [_named(m, lambda p: p) for m in modules] if "weights" in wanted else [],
        "grads": [_named(m, lambda p: p.grad) for m in modules] if "grads" in wanted else [],
        "leaf_grads": [_local(one.grad) for one in args if _is_leaf(one)],
        "held_bytes": {
            "parameters": held.parameters,
            "gradients": held.gradients,
            "optimizer_state": sum(meter.bytes_held(nn.Module(), one).optimizer_state for one in optimizers),
        },
    }


def plain_part(value: Any) -> Any:
    """Replace the modules, optimizers and leaves in a value, which cannot be sent, with None."""
    if isinstance(value, nn.Module | optim.Optimizer) or _is_leaf(value):
        return None
    if type(value) in (list, tuple):
        return type(value)(plain_part(item) for item in value)
    return value


def _named(module: nn.Module, part: Callable[[nn.Parameter], Any]) -> dict[str, Any]:
    return {name: _local(part(parameter)) for name, parameter in module.named_parameters()}


def _local(tensor: Any) -> Any:
    """Convert to a plain tensor; a sharded one becomes this rank's shard, and None stays None."""
    if tensor is None:
        return None
    tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return tensor.detach().as_subclass(torch.Tensor)


def _is_leaf(value: Any) -> bool:
    return type(value) is torch.Tensor and value.requires_grad and value.is_leaf


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else [value]
