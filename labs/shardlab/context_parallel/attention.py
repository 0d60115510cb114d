"""One interface for all methods: this rank's queries against the keys of the whole sequence.

layout = zigzag(8192, dist.get_world_size(group))
o = attend(q, k, v, layout=layout, group=group)                       # a ring, causal
o = attend(q, k, v, layout=layout, group=group, method=Ulysses())     # all-to-alls of heads
o = attend(q, k, v, layout=layout, group=group, method=Gathered(), mask=Mask(documents=((5000, 3192),)))
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.context_parallel.balance import SequenceLayout
from shardlab.context_parallel.mask import CAUSAL, Mask
from shardlab.context_parallel.messages import Group
from shardlab.context_parallel.ring import Ring
from shardlab.ranks.agreement import first_difference

RING = Ring()


class Method(Protocol):
    """How to reach the keys and values of other ranks: `Ring`, `Ulysses`, `Gathered` or `TwoLevel`."""

    def problem(self, heads: int, kv_heads: int, num_ranks: int) -> str | None: ...

    def attended(self, q: Tensor, k: Tensor, v: Tensor, layout: SequenceLayout, mask: Mask, group: Group) -> Tensor: ...


def attend(
    q_BASD: Tensor,
    k_BKSD: Tensor,
    v_BKSD: Tensor,
    *,
    layout: SequenceLayout,
    group: Group,
    method: Method = RING,
    mask: Mask = CAUSAL,
    agreed: bool = False,
) -> Tensor:
    """o_BASD = softmax(q k^T / sqrt(D)) v of this rank's queries over the keys of all ranks, as on one process.

    B batch, A query heads, K key-value heads (K divides A), S = s/c tokens of this rank in the order of `layout`, D
    width of a head. agreed: skip the comparison of the ranks' calls (`check_same_call`).
    Raises the same ValueError on every rank, before keys or values are sent, if sizes do not fit the layout, the mask
    or the method, or if a rank's call differs from that of the first rank.
    """
    if not agreed:
        check_same_call(q_BASD, k_BKSD, v_BKSD, layout=layout, group=group, method=method, mask=mask)
    return method.attended(q_BASD, k_BKSD, v_BKSD, layout, mask, group)


def check_same_call(
    q: Tensor, k: Tensor, v: Tensor, *, layout: SequenceLayout, group: Group, method: Method, mask: Mask
) -> None:
    """Raise the same ValueError on every rank if the call is invalid or the ranks' calls differ. Sends 16 bytes."""
    found = problem(q, k, v, layout=layout, method=method, mask=mask, num_ranks=dist.get_world_size(group))
    sizes = f"q {list(q.shape)} {q.dtype}, k {list(k.shape)} {k.dtype}, {type(method).__name__}"
    if other := first_difference([found or "", sizes, f"{mask}", f"{layout}"], group=group):
        raise ValueError(
            f"rank {other.rank} calls with {_short(other.line)}, but rank 0 with {_short(other.line_of_first)}. "
            "Give every context-parallel rank the same number of tokens, layout, mask and method."
        )
    if found:
        raise ValueError(found)


def problem(
    q: Tensor, k: Tensor, v: Tensor, *, layout: SequenceLayout, method: Method, mask: Mask, num_ranks: int
) -> str | None:
    """Why the call is invalid, with sizes that would work, or None if it is valid."""
    if layout.num_ranks != num_ranks:
        return f"a layout for {layout.num_ranks} ranks in a group of {num_ranks}: make a layout for {num_ranks}"
    if k.shape != v.shape or q.dim() != 4 or q.shape[:1] + q.shape[2:] != k.shape[:1] + k.shape[2:]:
        return f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}: give [B, heads, S, D], the same for k and v"
    if q.shape[2] != layout.tokens_per_rank:
        return (
            f"{q.shape[2]} tokens on a rank do not fit a layout of {layout.length} over {num_ranks} ranks: give "
            f"{layout.tokens_per_rank}, or a layout of {q.shape[2] * num_ranks}"
        )
    if q.shape[1] % k.shape[1]:
        fits = [number for number in range(1, q.shape[1] + 1) if q.shape[1] % number == 0]
        return f"{q.shape[1]} heads cannot share {k.shape[1]} key-value heads: use one of {fits}"
    return mask.problem(layout.length, q.shape[0]) or method.problem(q.shape[1], k.shape[1], num_ranks)


def check_positions(ids: Tensor, *, layout: SequenceLayout, group: Group, mask: Mask = CAUSAL) -> None:
    """Raise the same ValueError on every rank unless each rank's ids are the positions of its own tokens.

    ids: [S], or [B, S] if sequences have different documents. With another rank's ids, rotary embeddings rotate queries
    and keys by wrong angles, which the loss does not reveal.
    """
    rank = dist.get_rank(group)
    wrong = ""
    rows = ids if ids.dim() == 2 else ids.unsqueeze(0)
    for sequence, row in enumerate(rows):
        due = mask.position_ids(layout.positions(rank), layout.length, sequence).to(ids.device)
        if not wrong and (row.shape != due.shape or not torch.equal(row, due)):
            wrong = f"rank {rank} has position ids {row[:6].tolist()}... for tokens at {due[:6].tolist()}..."
    told: list[str] = [""] * dist.get_world_size(group)
    dist.all_gather_object(told, wrong, group=group)
    if found := next(filter(None, told), None):
        raise ValueError(f"{found}: split them like the tokens, with own_part(ids, layout, rank)")


def _short(line: str) -> str:
    return line if len(line) < 200 else f"{line[:200]}..."
