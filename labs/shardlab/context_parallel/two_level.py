"""Two levels: Ulysses inside each inner group, and a ring over the ranks with the same index in all inner groups.

The all-to-all stays on fast links, and its size is limited by the heads. The ring crosses slow links and can be hidden.
The product of the two sizes is c (arXiv 2405.07719: USP; Megatron-Core's "a2a+p2p").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor

from shardlab.context_parallel.balance import SequenceLayout
from shardlab.context_parallel.mask import Mask
from shardlab.context_parallel.messages import Group, Pass, pass_right
from shardlab.context_parallel.ring import Ring
from shardlab.context_parallel.ulysses import Ulysses, heads_for_tokens, tokens_for_heads
from shardlab.costs.models.model import divisors
from shardlab.mesh.process_groups import by_enumeration


@dataclass(frozen=True)
class TwoLevel:
    """inner: this rank's group for the all-to-all, neighbors in the whole group. outer: its group for the ring."""

    inner: Group
    outer: Group
    pass_on: Pass = pass_right

    def problem(self, heads: int, kv_heads: int, num_ranks: int) -> str | None:
        """Why these groups do not span the whole group, or why the inner group cannot split the heads."""
        inner, outer = (dist.get_process_group_ranks(group) for group in (self.inner, self.outer))
        if len(inner) * len(outer) != num_ranks or len({*inner, *outer}) != len(inner) + len(outer) - 1:
            return (
                f"groups of {len(inner)} and {len(outer)} ranks do not span {num_ranks}: make them with "
                f"two_level_groups, inner sizes {divisors(num_ranks)}"
            )
        return Ulysses().problem(heads, kv_heads, len(inner))

    def attended(self, q: Tensor, k: Tensor, v: Tensor, layout: SequenceLayout, mask: Mask, group: Group) -> Tensor:
        """o_BASD of this rank's tokens."""
        size = dist.get_world_size(self.inner)
        together = layout.within(dist.get_rank(self.outer) * size, size)
        q, k, v = heads_for_tokens(q, k, v, together, group=self.inner)
        o = Ring(self.pass_on).attended(q, k, v, layout.merged(size), mask, self.outer)
        return tokens_for_heads(o, together, group=self.inner)


def two_level_groups(members: Sequence[Sequence[int]], inner_size: int) -> tuple[Group, Group]:
    """Create this rank's inner and outer group. Every rank of the world must call it with the same lists.

    members: the ranks of every context-parallel group of the world. Raises ValueError if inner_size does not divide
    the size of a group.
    """
    for ranks in members:
        if inner_size < 1 or len(ranks) % inner_size:
            raise ValueError(f"inner groups of {inner_size} in {len(ranks)} ranks: use one of {divisors(len(ranks))}")
    inner = [list(ranks[first : first + inner_size]) for ranks in members for first in range(0, len(ranks), inner_size)]
    outer = [list(ranks[place::inner_size]) for ranks in members for place in range(inner_size)]
    return by_enumeration(inner), by_enumeration(outer)
