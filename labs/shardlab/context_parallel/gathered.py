"""Gather the keys and values of all ranks on every rank, as in Llama 3's training (arXiv 2407.21783, section 3.3.2).

With grouped-query attention they are small, and once gathered, each rank can apply any mask locally. The backward
gathers them again, so that only s/c tokens are kept in between, and reduce-scatters their gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.context_parallel.balance import SequenceLayout, in_order, parted
from shardlab.context_parallel.mask import Mask, tiles
from shardlab.context_parallel.messages import Group, all_gathered, reduce_scattered
from shardlab.context_parallel.online import Attended, Gradients


@dataclass(frozen=True)
class Gathered:
    """All-gather of keys and values."""

    def problem(self, heads: int, kv_heads: int, num_ranks: int) -> str | None:
        """None: every number of heads works."""
        return None

    def attended(self, q: Tensor, k: Tensor, v: Tensor, layout: SequenceLayout, mask: Mask, group: Group) -> Tensor:
        """o_BASD of this rank's queries."""
        return _Gathered.apply(q, k, v, layout, mask, group)


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q_BASD: Tensor, k_BKSD: Tensor, v_BKSD: Tensor, layout: SequenceLayout, mask: Mask, group: Group
    ) -> Tensor:
        ctx.layout, ctx.group = layout, group
        ctx.tiles = tiles(layout, dist.get_rank(group), None, mask)
        attended = Attended(q_BASD)
        attended.see(_all_keys(k_BKSD, v_BKSD, layout, group), ctx.tiles)
        o_BASD, lse_BAS = attended.result()
        ctx.save_for_backward(q_BASD, k_BKSD, v_BKSD, o_BASD, lse_BAS)
        return o_BASD

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q_BASD, k_BKSD, v_BKSD, o_BASD, lse_BAS = ctx.saved_tensors
        found = Gradients(gradients[0], q_BASD, o_BASD, lse_BAS)
        of_all = found.of(_all_keys(k_BKSD, v_BKSD, ctx.layout, ctx.group), ctx.tiles)
        by_rank = torch.stack(parted(of_all, ctx.layout, dim=3))
        dk, dv = reduce_scattered(by_rank, group=ctx.group)
        return found.dq, dk.to(k_BKSD.dtype), dv.to(v_BKSD.dtype), None, None, None


def _all_keys(k_BKSD: Tensor, v_BKSD: Tensor, layout: SequenceLayout, group: Group) -> Tensor:
    """Keys and values [2, B, K, s, D] of all ranks, in order of positions."""
    by_rank = all_gathered(torch.stack((k_BKSD, v_BKSD)), group=group)
    return in_order(by_rank.unbind(0), layout, dim=3)
