"""Activations that are not kept but computed again in the backward (arXiv 1604.06174, 2205.05198 section 5).

What is recomputed is chosen by paths of modules:

    recompute(model, "blocks.*.attention.core")  selective: cheap to compute, expensive to keep
    recompute(model, "blocks.*")                 full: of each layer only its input is kept
    recompute(model, "blocks.*", every=2)        every second layer
    recompute(model, "blocks.*.up")              one module of each layer
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from shardlab.model.dropout import generators_of
from shardlab.model.paths import paths_matching

Forward = Callable[..., Tensor]


def recompute(model: nn.Module, pattern: str, *, every: int = 1, restores_random: bool = True) -> nn.Module:
    """Let the modules that fit a pattern keep their inputs alone; returns the model, changed in place.

    every: of the modules that fit, only the first, and each so many behind it. restores_random: dropouts draw the
    same masks again; False draws others in the backward, a known mistake. A split model is recomputed as it is: apply
    its plan first. Raises ValueError for a pattern that fits nothing and for every < 1.
    """
    if every < 1:
        raise ValueError(f"every = {every} chooses no layer: use 1 for all of them, 2 for every second")
    for path in paths_matching(model, pattern)[::every]:
        module = model.get_submodule(path)
        generators = generators_of(module) if restores_random else []
        # the module stays where it is, so that names of parameters do not change
        module.forward = partial(recomputed, module.forward, generators=generators)
    return model


def recomputed(function: Forward, *inputs: Tensor, generators: list[torch.Generator]) -> Tensor:
    """function(*inputs), of which only the inputs are kept: the backward computes it again, from the same states.

    Use it under `backward()`: it adds gradients to parameters itself, which `torch.autograd.grad` cannot ask for.
    """
    if not torch.is_grad_enabled():
        return function(*inputs)
    anchor = torch.empty(0, requires_grad=True)  # parameters need gradients even where no input does
    return _Recomputed.apply(function, generators, anchor, *inputs)


class _Recomputed(torch.autograd.Function):
    """forward: 1. note the random states  2. keep the inputs  3. compute, and keep nothing else.

    backward: 1. go back to these states  2. compute again, with a graph  3. return to the present  4. walk the graph.
    """

    @staticmethod
    def forward(
        ctx: Any, function: Forward, generators: list[torch.Generator], anchor: Tensor, *inputs: Tensor
    ) -> Tensor:
        ctx.function, ctx.generators = function, generators
        ctx.states = [generator.get_state() for generator in generators]
        ctx.save_for_backward(*inputs)
        return function(*inputs)  # autograd is off in here

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs = [saved.detach().requires_grad_(saved.requires_grad) for saved in ctx.saved_tensors]
        present = [generator.get_state() for generator in ctx.generators]
        _set(ctx.generators, ctx.states)
        with torch.enable_grad():
            output = ctx.function(*inputs)
        _set(ctx.generators, present)
        if output.requires_grad:  # otherwise nothing in here is trained
            torch.autograd.backward(output, gradients[0])
        return None, None, None, *(given.grad for given in inputs)


def _set(generators: list[torch.Generator], states: list[Tensor]) -> None:
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)
