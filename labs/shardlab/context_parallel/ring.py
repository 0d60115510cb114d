"""Ring attention: keys and values go round the ranks, and each block is attended to while the next one is on its way.

Forward (arXiv 2310.01889): in step i rank r has the keys and values of rank r-i. Backward: they go round once more, and
the gradients of each block follow one step behind, growing with every rank's part until they are home. Each of the
three rounds is c-1 messages of a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.context_parallel.balance import SequenceLayout
from shardlab.context_parallel.mask import Mask, Tile, tiles
from shardlab.context_parallel.messages import Group, Pass, pass_right
from shardlab.context_parallel.online import Attended, Gradients


@dataclass(frozen=True)
class Ring:
    """Keys and values go round. pass_on: how a block travels to the right neighbour."""

    pass_on: Pass = pass_right

    def problem(self, heads: int, kv_heads: int, num_ranks: int) -> str | None:
        """None: every number of heads works."""
        return None

    def attended(self, q: Tensor, k: Tensor, v: Tensor, layout: SequenceLayout, mask: Mask, group: Group) -> Tensor:
        """o_BASD of this rank's queries over the keys of all ranks."""
        return _Ring.apply(q, k, v, _Round(layout, mask, group, self.pass_on))  # type: ignore[return-value]


@dataclass(frozen=True)
class _Round:
    """Whose block is here in which step, and what of it this rank's queries see."""

    layout: SequenceLayout
    mask: Mask
    group: Group
    pass_on: Pass

    @property
    def num_steps(self) -> int:
        return self.layout.num_ranks

    def tiles(self, step: int) -> tuple[Tile, ...]:
        rank = dist.get_rank(self.group)
        return tiles(self.layout, rank, (rank - step) % self.num_steps, self.mask)


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q_BASD: Tensor, k_BKSD: Tensor, v_BKSD: Tensor, way: _Round) -> Tensor:
        """In each step: 1. pass the block on  2. attend to it meanwhile  3. wait for the next."""
        own = here = [k_BKSD.contiguous(), v_BKSD.contiguous()]
        attended = Attended(q_BASD)
        for step in range(way.num_steps):
            is_last = step == way.num_steps - 1
            arriving = None if is_last else way.pass_on(here, way.group)
            attended.see(here, way.tiles(step))
            if arriving:
                here, arriving = arriving(), None  # what was sent may go now

        o_BASD, lse_BAS = attended.result()
        ctx.way = way
        ctx.save_for_backward(q_BASD, *own, o_BASD, lse_BAS)
        return o_BASD

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """In each step: 1. pass the block on  2. its gradients, with all keys' o and lse  3. add those of the ranks
        before, and pass the sum on. After the last step the sum of this rank's own block comes home.
        """
        way: _Round = ctx.way
        q_BASD, k_BKSD, v_BKSD, o_BASD, lse_BAS = ctx.saved_tensors
        here, following = [k_BKSD, v_BKSD], None
        found = Gradients(gradients[0], q_BASD, o_BASD, lse_BAS)
        own: list[Tensor] = []
        for step in range(way.num_steps):
            is_last = step == way.num_steps - 1
            arriving = None if is_last else way.pass_on(here, way.group)
            mine = found.of(here, way.tiles(step))
            if step == 0:
                own = mine
            else:
                if following:
                    mine, following = _sum(following(), mine), None
                following = way.pass_on(mine, way.group)
            if arriving:
                here, arriving = arriving(), None  # what was sent may go now

        dk, dv = _sum(following(), own) if following else own
        return found.dq, dk.to(k_BKSD.dtype), dv.to(v_BKSD.dtype), None


def _sum(arrived: list[Tensor], mine: list[Tensor]) -> list[Tensor]:
    return [one.add_(other) for one, other in zip(arrived, mine, strict=True)]
