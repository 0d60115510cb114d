"""Ulysses: an all-to-all gives each rank the whole sequence for some heads, and another one sends the result back.

arXiv 2309.14509, section 3. Queries, keys and values are sent in one message. If there are fewer key-value heads than
ranks, each head is sent to all ranks that need it. `TwoLevel` combines it with a ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.context_parallel.balance import SequenceLayout, in_order, parted
from shardlab.context_parallel.mask import Mask
from shardlab.context_parallel.messages import Group, Pass, all_to_all, pass_right
from shardlab.context_parallel.online import attend_here
from shardlab.context_parallel.ring import Ring
from shardlab.costs.models.model import divisors
from shardlab.mesh.process_groups import by_enumeration


@dataclass(frozen=True)
class Ulysses:
    """Exchange tokens for heads, and back."""

    def problem(self, heads: int, kv_heads: int, num_ranks: int) -> str | None:
        """Why the ranks cannot split these heads, with the numbers of ranks that can, or None if they can."""
        fits = [ranks for ranks in divisors(heads) if kv_heads % ranks == 0 or ranks % kv_heads == 0]
        if num_ranks in fits:
            return None
        shared = "" if kv_heads == heads else f" and {kv_heads} key-value heads"
        return f"{heads} heads{shared} cannot be split over {num_ranks} ranks by Ulysses: use ranks among {fits}"

    def attended(self, q: Tensor, k: Tensor, v: Tensor, layout: SequenceLayout, mask: Mask, group: Group) -> Tensor:
        """o_BASD of this rank's tokens."""
        q, k, v = heads_for_tokens(q, k, v, layout, group=group)
        return tokens_for_heads(attend_here(q, k, v, mask), layout, group=group)


def heads_for_tokens(
    q_BASD: Tensor, k_BKSD: Tensor, v_BKSD: Tensor, layout: SequenceLayout, *, group: Group
) -> tuple[Tensor, ...]:
    """From all heads of s/c tokens to some heads of all s tokens, in position order: 1/c of the query heads, and the
    key-value heads that these query heads use, at least one.
    """
    size = dist.get_world_size(group)
    copies = max(1, size // k_BKSD.shape[1])
    if copies > 1:
        k_BKSD, v_BKSD = (one.repeat_interleave(copies, 1) for one in (k_BKSD, v_BKSD))
    by_rank = [one.unflatten(1, (size, -1)).movedim(1, 0) for one in (q_BASD, k_BKSD, v_BKSD)]
    parts = all_to_all(torch.cat(by_rank, 2), group=group)
    whole = in_order(parts.unbind(0), layout, dim=2)
    return whole.split([one.shape[2] for one in by_rank], 1)


def tokens_for_heads(o_BASD: Tensor, layout: SequenceLayout, *, group: Group) -> Tensor:
    """From some heads of all tokens back to all heads of this rank's tokens."""
    parts = all_to_all(torch.stack(parted(o_BASD, layout, dim=2)), group=group)
    return torch.cat(parts.unbind(0), 1)


@dataclass(frozen=True)
class TwoLevel:
    """Ulysses inside each inner group, and a ring over the ranks with the same index in all inner groups.

    The all-to-all stays on fast links, and its size is limited by the heads. The ring crosses slow links and can be
    hidden. The product of the two sizes is c (arXiv 2405.07719: USP; Megatron-Core's "a2a+p2p").
    inner: this rank's group for the all-to-all, neighbors in the whole group. outer: its group for the ring.
    """

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
