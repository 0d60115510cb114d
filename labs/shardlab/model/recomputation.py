"""Recompute activations in the backward instead of saving them (arXiv 1604.06174, 2205.05198 section 5).

Choose what to recompute by module paths:

    recompute(model, "blocks.*.attention.core")  selective: cheap to compute, expensive to save
    recompute(model, "blocks.*")                 full: only each layer's input is saved
    recompute(model, "blocks.*", every=2)        every second layer
    recompute(model, "blocks.*.up")              one module of each layer
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from shardlab.model.dropout import generators_of

Forward = Callable[..., Tensor]


def recompute(model: nn.Module, pattern: str, *, every: int = 1, restores_random: bool = True) -> nn.Module:
    """Make the modules that match a pattern save only their inputs; returns the model, changed in place.

    every: recompute only every n-th matching module, starting with the first. restores_random: dropout draws the same
    masks again; False draws different ones in the backward, a known mistake. To recompute a split model, apply its
    plan first. Raises ValueError for a pattern that matches nothing and for every < 1.
    """
    if every < 1:
        raise ValueError(f"every = {every} chooses no layer: use 1 for all of them, 2 for every second")
    for path in paths_matching(model, pattern)[::every]:
        module = model.get_submodule(path)
        generators = generators_of(module) if restores_random else []
        # replace only the forward, so that parameter names do not change
        module.forward = partial(recomputed, module.forward, generators=generators)
    return model


def recomputed(function: Forward, *inputs: Tensor, generators: list[torch.Generator]) -> Tensor:
    """Run function(*inputs) and save only the inputs; the backward computes it again with the same random states.

    Use it with `backward()`, not `torch.autograd.grad`, because it accumulates parameter gradients itself.
    """
    if not torch.is_grad_enabled():
        return function(*inputs)
    anchor = torch.empty(0, requires_grad=True)  # parameters need gradients even if no input does
    return _Recomputed.apply(function, generators, anchor, *inputs)


class _Recomputed(torch.autograd.Function):
    """forward: 1. save the random states  2. save the inputs  3. compute without saving anything else.

    backward: 1. restore these states  2. recompute with a graph  3. restore the present states  4. backward the graph.
    """

    @staticmethod
    def forward(
        ctx: Any, function: Forward, generators: list[torch.Generator], anchor: Tensor, *inputs: Tensor
    ) -> Tensor:
        ctx.function, ctx.generators = function, generators
        ctx.states = [generator.get_state() for generator in generators]
        ctx.save_for_backward(*inputs)
        return function(*inputs)  # autograd is off here

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs = [saved.detach().requires_grad_(saved.requires_grad) for saved in ctx.saved_tensors]
        present = [generator.get_state() for generator in ctx.generators]
        _set(ctx.generators, ctx.states)
        with torch.enable_grad():
            output = ctx.function(*inputs)
        _set(ctx.generators, present)
        if output.requires_grad:  # otherwise nothing in this function is trained
            torch.autograd.backward(output, gradients[0])
        return None, None, None, *(given.grad for given in inputs)


def _set(generators: list[torch.Generator], states: list[Tensor]) -> None:
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)


def paths_matching(module: nn.Module, pattern: str) -> list[str]:
    """Paths of the modules inside `module` that match, such as `blocks.*.up`; a `*` matches one name or part of it.

    Raises ValueError with the existing paths if nothing matches.
    """
    wanted = pattern.split(".")
    there = [path for path, _ in module.named_modules() if path]
    found = [path for path in there if _fits(path.split("."), wanted)]
    if not found:
        raise ValueError(f"no module is called {pattern!r}: use paths among {', '.join(sorted(there)[:40])}")
    return found


def _fits(names: list[str], wanted: list[str]) -> bool:
    return len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))
