"""Before the first step: do all ranks hold the same model, and is there anything to train?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

Named = Sequence[tuple[str, nn.Parameter]]


def trainable(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Names and parameters that need gradients, each once even if two layers share it.

    Raises ValueError for a model whose parameters are all frozen.
    """
    found = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    if not found:
        raise ValueError("no parameter needs a gradient: unfreeze some with requires_grad_(True), or do not wrap it")
    return found


def same_on_every_rank(parameters: Named, *, group: dist.ProcessGroup | None) -> None:
    """Raise ValueError, on every rank alike, when names, shapes or dtypes are not those of the group's first rank."""
    mine = [f"{name} {list(parameter.shape)} {parameter.dtype}" for name, parameter in parameters]
    all_ranks: list[list[str]] = [[] for _ in range(dist.get_world_size(group))]
    dist.all_gather_object(all_ranks, mine, group=group)
    for rank, theirs in enumerate(all_ranks):
        if theirs != all_ranks[0]:
            ours, other = _first_difference(all_ranks[0], theirs)
            raise ValueError(
                f"rank {rank} has another model than rank 0: {other} where rank 0 has {ours}. "
                "Build the same model on every rank, in the same order."
            )


def _first_difference(first: Sequence[str], second: Sequence[str]) -> tuple[str, str]:
    for one, other in zip(first, second, strict=False):
        if one != other:
            return one, other
    longer = max(first, second, key=len)[min(len(first), len(second))]
    return (longer, "nothing") if len(first) > len(second) else ("nothing", longer)


def unchanged(module: nn.Module, known: Sequence[nn.Parameter]) -> None:
    """Raise ValueError when the model's trainable parameters are no longer those that were wrapped."""
    now = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if len(now) != len(known) or any(a is not b for a, b in zip(now, known, strict=True)):
        raise ValueError(
            f"the model had {len(known)} trainable parameters when it was wrapped and has {len(now)} now, or others: "
            "change a model first, then wrap it, or the new weights are never synchronised"
        )


@torch.no_grad()
def copy_from_first(tensors: Sequence[torch.Tensor], *, group: dist.ProcessGroup | None) -> None:
    """Broadcast the group's first rank's values, so that all ranks start from the same weights."""
    works = [dist.broadcast(tensor.detach(), group=group, group_src=0, async_op=True) for tensor in tensors]
    for work in works:
        if work is not None:
            work.wait()
