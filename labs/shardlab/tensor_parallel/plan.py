"""A plan describes as data how to split a model: {module path: how to split it}. `apply_plan` carries it out.

Paths are patterns: `blocks.*.up` matches the one in every block. Modules that no path matches are whole on every rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import nn

from shardlab.model.recomputation import paths_matching
from shardlab.ranks.agreement import first_difference
from shardlab.tensor_parallel.gradients import cuts_of
from shardlab.tensor_parallel.messages import Group


class Split(Protocol):
    """One way to split a module, such as `Column()`. `applied` returns the replacement (possibly the same module)."""

    def applied(self, module: Any, group: Group, streams: RandomStreams) -> nn.Module: ...


Plan = Mapping[str, Split]


def apply_plan(module: nn.Module, plan: Plan, *, group: Group, seed: int = 0) -> nn.Module:
    """Replace a whole model's modules by this rank's parts. Changes the model in place and returns it.

    1. check that the ranks agree on model and plan  2. replace each module  3. tie shared parameters again.
    seed: of the dropouts. Every rank passes the same whole model. Raises the same ValueError on every rank if the ranks
    have different models, plans or seeds, if a path matches no module or is matched by two patterns, or if the ranks do
    not divide a size.
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
    """The plan by path. Raises ValueError if a pattern matches no path, or if two patterns match the same path."""
    found: dict[str, Split] = {}
    for pattern, split in plan.items():
        for path in paths_matching(module, pattern):
            if path in found:
                raise ValueError(f"{path} is split both as {found[path]} and as {split}: match it with one pattern")
            found[path] = split
    for path in found:
        if around := next((other for other in found if path.startswith(f"{other}.")), None):
            raise ValueError(f"{path} is inside {around}, which is split as {found[around]}: name only one of them")
    return found


def _tied(module: nn.Module) -> list[list[str]]:
    """Names of parameters that are shared, such as a head tied to the embedding."""
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


def check_same_model(module: nn.Module, plan: Mapping[str, Any], seed: int, *, group: Group) -> None:
    """Raise the same ValueError on every rank if names, shapes, dtypes, plan or seed differ from the first rank's."""
    lines = [f"seed {seed}", *(f"{path}: {split}" for path, split in plan.items())]
    lines += [f"{name} {list(one.shape)} {one.dtype}" for name, one in module.named_parameters()]
    if found := first_difference(lines, group=group):
        raise ValueError(
            f"rank {found.rank} has a different model or plan from rank 0: {found.line}, but rank 0 has "
            f"{found.line_of_first}. Build the same model and the same plan on every rank."
        )


APART = 1_000_003  # distance between two ranks' seeds, so that runs with consecutive seeds do not overlap


class RandomStreams:
    """`replicated` draws the same numbers on every rank of the group; `split` draws different numbers on each.

    With one seed everywhere, all ranks would drop the same places in their split regions. With one seed per rank,
    copies of the same activation would differ (Megatron-LM, tensor_parallel/random.py).

    seed: the same on every rank of the group, but different for each data-parallel replica.
    """

    def __init__(self, seed: int, *, group: Group, device: torch.device | str = "cpu") -> None:
        self.replicated = torch.Generator(device).manual_seed(seed)
        self.split = torch.Generator(device).manual_seed(seed + APART * (1 + dist.get_rank(group)))

    def state(self) -> list[torch.Tensor]:
        """The state of both streams. Save it in a checkpoint, so that a resumed run continues with the same masks."""
        return [self.replicated.get_state(), self.split.get_state()]

    def set_state(self, state: list[torch.Tensor]) -> None:
        """Restore what `state()` returned."""
        self.replicated.set_state(state[0])
        self.split.set_state(state[1])
