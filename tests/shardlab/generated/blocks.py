"""Blocks that are hard to shard: odd outputs, branches, recomputation, shared, frozen and empty parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

WIDTH = 3


class Pair(NamedTuple):
    result: Tensor
    extra: Tensor


@dataclass
class Outcome:
    """Not a pytree, so a search for tensors must look inside it."""

    result: Tensor
    extra: Tensor


class Holder:
    """An object of an unknown class."""

    def __init__(self, result: Tensor, extra: Tensor) -> None:
        self.inside = [{"result": result}, (extra,)]

    @property
    def result(self) -> Tensor:
        return self.inside[0]["result"]

    @property
    def extra(self) -> Tensor:
        return self.inside[1][0]


CONTAINERS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "pair": Pair,
    "dataclass": Outcome,
    "object": Holder,
    "dict": lambda result, extra: {"result": result, "extra": extra},
}
RECOMPUTED = ("no", "no", "inside", "outside", "inside, nested", "outside, nested")  # nested: use_reentrant=True


@dataclass(frozen=True)
class BlockPlan:
    """The properties of a block.

    extra: the tensor it returns next to its result: "nothing", "input" or "inner" (an inner activation).
    container: the type of object that holds both.
    branch: it has a second matrix, which a microbatch may skip. aside: it keeps its own loss as an attribute.
    frozen: "nothing", "bias" or "all". tied: its first matrix is that of block 0.
    """

    hidden: int
    extra: str
    container: str
    uses_extra: bool
    branch: bool
    aside: bool
    recomputed: str
    frozen: str
    tied: bool
    scalar: bool
    empty: bool
    single: bool  # a matrix in single precision
    buffer: bool

    @property
    def is_nested(self) -> bool:
        return self.recomputed.endswith("nested")


def draw_block(random: Random, *, hidden: int) -> BlockPlan:
    def sometimes() -> bool:
        return random.random() < 0.25

    recomputed = random.choice(RECOMPUTED)
    return BlockPlan(
        hidden=hidden,
        extra=random.choice(["nothing", "input", "inner"]),
        container=random.choice(list(CONTAINERS)),
        uses_extra=random.random() < 0.5,
        branch=sometimes(),
        aside=sometimes() and not recomputed.endswith("nested"),  # its gradient would arrive twice
        recomputed=recomputed,
        frozen=random.choice(["nothing"] * 4 + ["bias", "all"]),
        tied=sometimes(),
        scalar=sometimes(),
        empty=sometimes(),
        single=sometimes(),
        buffer=sometimes(),
    )


class Block(nn.Module):
    """tanh(x up) down, plus the properties of its plan."""

    calls: Tensor

    def __init__(self, plan: BlockPlan) -> None:
        super().__init__()
        self.plan = plan
        self.up, self.down = nn.Linear(WIDTH, plan.hidden), nn.Linear(plan.hidden, WIDTH)
        self.other = nn.Linear(WIDTH, WIDTH) if plan.branch else None
        self.single = nn.Linear(WIDTH, WIDTH) if plan.single else None
        self.scalar = nn.Parameter(torch.tensor(0.8)) if plan.scalar else None
        self.empty = nn.Parameter(torch.empty(0, WIDTH)) if plan.empty else None
        if plan.buffer:
            self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.aside: Tensor | None = None

    def forward(self, x: Tensor, both: bool) -> Any:
        """x: [rows, WIDTH]. both: whether to use the second matrix."""
        plan = self.plan
        if plan.buffer and self.training:
            self.calls += 1
        if plan.recomputed.startswith("inside"):
            result, inner = checkpoint(self._compute, x, both, use_reentrant=plan.is_nested)
        else:
            result, inner = self._compute(x, both)
        if plan.aside:
            self.aside = self.down(inner).square().sum(1)
        if plan.extra == "nothing":
            return result
        return CONTAINERS[plan.container](
            result, x if plan.extra == "input" else inner @ inner.new_ones(plan.hidden, WIDTH)
        )

    def _compute(self, x: Tensor, both: bool) -> tuple[Tensor, Tensor]:
        inner = self.up(x).tanh()
        result = self.down(inner) + x
        if self.other is not None and both:
            result = result + self.other(result).tanh()
        if self.single is not None:
            result = result + self.single(result.float()).to(result)
        if self.scalar is not None:
            result = result * self.scalar
        if self.empty is not None:
            result = result + self.empty.sum()
        if self.plan.buffer:
            result = result / (1 + self.calls / 100)
        return result, inner


def parts_of(output: Any) -> tuple[Tensor, Tensor | None]:
    """A block's result, and the extra tensor returned with it."""
    if isinstance(output, Tensor):
        return output, None
    if isinstance(output, dict):
        return output["result"], output["extra"]
    return output.result, output.extra


def call(block: Block, x: Tensor, both: bool) -> Any:
    """Call the block, with recomputation in the backward if its plan says so."""
    if block.plan.recomputed.startswith("outside") and torch.is_grad_enabled():
        if block.plan.is_nested:  # takes and returns only tensors
            result, extra = checkpoint(lambda x: parts_of(block(x, both)), x, use_reentrant=True)
            return Pair(result, extra) if extra is not None else result
        return checkpoint(block, x, both, use_reentrant=False)
    return block(x, both)
