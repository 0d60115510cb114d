"""Checks before the first step: all ranks hold the same model, and there is something to train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import nn

from shardlab.ranks.agreement import first_difference

Named = Sequence[tuple[str, nn.Parameter]]


def trainable(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Names and parameters that require gradients, each listed once even if two layers share it.

    Raises ValueError if all parameters are frozen.
    """
    found = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    if not found:
        raise ValueError("no parameter requires a gradient: unfreeze some with requires_grad_(True), or do not wrap it")
    return found


def same_on_every_rank(parameters: Named, *, group: dist.ProcessGroup | None) -> None:
    """Raise the same ValueError on every rank if names, shapes or dtypes differ from the group's first rank."""
    mine = [f"{name} {list(parameter.shape)} {parameter.dtype}" for name, parameter in parameters]
    if found := first_difference(mine, group=group):
        raise ValueError(
            f"rank {found.rank} has a different model from rank 0: {found.line}, but rank 0 has {found.line_of_first}. "
            "Build the same model on every rank, in the same order."
        )


class Snapshot:
    """The state of a model when it was wrapped. `change` describes what has changed since."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._known = {name: (parameter, _facts(parameter)) for name, parameter in module.named_parameters()}

    def change(self, homes: Mapping[nn.Parameter, torch.Tensor] | None = None) -> str | None:
        """The first parameter that was added, replaced, removed, reshaped, moved, frozen or unfrozen, or None.

        homes: for parameters that are views, the tensor whose memory each must use.
        """
        now = dict(self._module.named_parameters())
        for name, parameter in now.items():
            what = self._change_of(name, parameter, homes or {})
            if what is not None:
                return f"{name} {what} after the model was wrapped: {_REMEDY}"
        gone = next((name for name in self._known if name not in now), None)
        return None if gone is None else f"{gone} was removed after the model was wrapped: {_REMEDY}"

    def _change_of(self, name: str, parameter: nn.Parameter, homes: Mapping[nn.Parameter, torch.Tensor]) -> str | None:
        if name not in self._known:
            return f"{list(parameter.shape)} was added"
        before, facts = self._known[name]
        if parameter is not before:
            return "was replaced by another parameter"
        for was, became in zip(facts, _facts(parameter), strict=True):
            if was != became:
                return f"was {was} and became {became}"
        home = homes.get(parameter)
        if home is not None and home.untyped_storage()._cdata != parameter.untyped_storage()._cdata:
            return "was given other memory (copy values into it with copy_)"
        return None


_REMEDY = "change a model first, then wrap it"


def _facts(parameter: nn.Parameter) -> tuple[str, torch.dtype, str, str]:
    """The properties that must not change, as words for a sentence."""
    is_trained = "trainable" if parameter.requires_grad else "frozen"
    return f"of shape {list(parameter.shape)}", parameter.dtype, f"on {parameter.device}", is_trained


@torch.no_grad()
def copy_from_first(tensors: Sequence[torch.Tensor], *, group: dist.ProcessGroup | None) -> None:
    """Broadcast the values of the group's first rank, so that all ranks start from the same weights."""
    works = [dist.broadcast(tensor.detach(), group=group, group_src=0, async_op=True) for tensor in tensors]
    for work in works:
        if work is not None:
            work.wait()
