"""A plan says how a model is split, as data: {path of modules: how}; `apply_plan` does it.

Paths are patterns, `blocks.*.up` is that of every block. What no path names is whole on every rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import nn

from shardlab.model.paths import paths_matching
from shardlab.tensor_parallel.agreement import check_same_model
from shardlab.tensor_parallel.gradients import cuts_of
from shardlab.tensor_parallel.messages import Group
from shardlab.tensor_parallel.randomness import RandomStreams


class Split(Protocol):
    """One way to split a module, such as `Column()`: the module that takes its place (it may be the same)."""

    def applied(self, module: Any, group: Group, streams: RandomStreams) -> nn.Module: ...


Plan = Mapping[str, Split]


def apply_plan(module: nn.Module, plan: Plan, *, group: Group, seed: int = 0) -> nn.Module:
    """Replace a whole model's modules by this rank's parts; returns the model, changed in place.

    1. the ranks agree on model and plan  2. each module is replaced  3. parameters that were one are one again.
    seed: of the dropouts. Every rank gives the same whole model. Raises ValueError, on every rank alike, when ranks
    bring different models, plans or seeds, for a path that fits no module or that two patterns name, and for sizes
    that the ranks do not divide.
    """
    check_same_model(module, plan, seed, group=group)
    splits = splits_by_path(module, plan)
    tied = _tied(module)
    streams = RandomStreams(seed, group=group, device=next(module.parameters()).device)
    replaced = {path: split.applied(module.get_submodule(path), group, streams) for path, split in splits.items()}
    for path, part in replaced.items():
        parent, _, name = path.rpartition(".")
        setattr(module.get_submodule(parent), name, part)
    for names in tied:
        _tie(module, names)
    return module


def splits_by_path(module: nn.Module, plan: Plan) -> dict[str, Split]:
    """The plan path by path. Raises ValueError for a pattern without a path, and for a path that is named twice."""
    found: dict[str, Split] = {}
    for pattern, split in plan.items():
        for path in paths_matching(module, pattern):
            if path in found:
                raise ValueError(f"{path} is to be split as {found[path]} and as {split}: name it in one pattern")
            found[path] = split
    for path in found:
        if around := next((other for other in found if path.startswith(f"{other}.")), None):
            raise ValueError(f"{path} lies in {around}, which is split as {found[around]}: name one of them")
    return found


def _tied(module: nn.Module) -> list[list[str]]:
    """Names of parameters that are one, such as a head that is the embedding."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return [some for some in names.values() if len(some) > 1]


def _tie(module: nn.Module, names: list[str]) -> None:
    first, *others = names
    cuts = cuts_of(module)
    for name in others:
        if cuts.get(name) != cuts.get(first):
            raise ValueError(f"{first} and {name} are one parameter: split both in the same way, or neither")
        path, _, last = name.rpartition(".")
        setattr(module.get_submodule(path), last, module.get_parameter(first))
