"""Ulysses: an all-to-all gives each rank the whole sequence for some heads, and another one sends the result back.

arXiv 2309.14509, section 3. Queries, keys and values are sent in one message. If there are fewer key-value heads than
ranks, each head is sent to all ranks that need it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.context_parallel.balance import SequenceLayout, in_order, parted
from shardlab.context_parallel.local import attend_here
from shardlab.context_parallel.mask import Mask
from shardlab.context_parallel.messages import Group, all_to_all
from shardlab.costs.models.model import divisors


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
