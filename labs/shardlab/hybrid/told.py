"""Model and optimizer as text that is the same in every process, for ranks to compare."""

from __future__ import annotations

from functools import partial

from torch import nn

from shardlab.hybrid.part import Whole
from shardlab.hybrid.weights import NewOptimizer
from shardlab.model.moe import MoEConfig


def moe_of(whole: Whole) -> MoEConfig | None:
    """The sizes of a model's experts; None for a dense one."""
    if isinstance(whole, nn.Module):
        return getattr(getattr(whole.blocks[0], "moe", None), "config", None)
    return getattr(whole, "moe", None)


def moe_text(moe: MoEConfig | None) -> str:
    """Its sizes as text that is the same in every process."""
    if moe is None:
        return "none"
    choice = {name: value for name, value in vars(moe.choice).items() if isinstance(value, int | float | bool)}
    return (
        f"{choice} { ({name: v for name, v in vars(moe).items() if isinstance(v, int | float | bool)}) } {moe.capacity}"
    )


def optimizer_text(new_optimizer: NewOptimizer) -> str:
    """An optimizer as text: of a partial the class and its options."""
    if isinstance(new_optimizer, partial):
        return f"{getattr(new_optimizer.func, '__name__', '')} {sorted(new_optimizer.keywords.items())}"
    return getattr(new_optimizer, "__name__", type(new_optimizer).__name__)
