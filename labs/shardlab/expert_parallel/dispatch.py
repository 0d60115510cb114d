"""Send rows to the ranks that hold their experts, and back.

This takes one all-to-all of counts, two of rows in the forward, and two more in the backward.

Shapes: T tokens and R rows of this rank, A rows that arrive, H hidden, E experts, K choices of a token, X own experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.expert_parallel.agreement import Group, own_counts, own_experts
from shardlab.expert_parallel.messages import DIRECT, Started, Travel, start_all_to_all
from shardlab.model.experts import places_in_batch
from shardlab.model.permutation import Rows, from_rows, to_rows

Chunks = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Exchange:
    """How many rows this rank sends to each rank, and how many arrive.

    sent: rows to each rank. chunks: number of arriving rows [source][own expert]; rows are stored in this order.
    place_R: each row's index among the padded rows, or None without padding.
    """

    rows: Rows
    sent: list[int]
    chunks: list[list[int]]
    place_R: Tensor | None
    group: Group
    travel: Travel

    @property
    def received(self) -> list[int]:
        """Rows from each rank."""
        return [sum(of_source) for of_source in self.chunks]


def agree(
    rows: Rows,
    *,
    group: Group,
    has_gradient: bool = True,
    padded_to: int | None = None,
    travel: Travel = DIRECT,
) -> Exchange:
    """Exchange the counts. Rank r holds the r-th part of the experts.

    padded_to: pad the rows from this rank to this many per expert. has_gradient: whether rows require a gradient.
    Raises the same ValueError on every rank if a rank cannot continue, or if the ranks do not divide the experts.
    """
    num_experts, size = len(rows.counts_E), dist.get_world_size(group)
    own_experts(num_experts, group=group)
    counts_E = rows.counts_E if padded_to is None else torch.full_like(rows.counts_E, padded_to)
    sizes, chunks = own_counts(counts_E, has_gradient=has_gradient, trouble="", group=group)
    each = num_experts // size
    sent = [sum(sizes[first : first + each]) for first in range(0, num_experts, each)]
    device = rows.choice_R.device
    place_R = None if padded_to is None else places_in_batch(rows.sizes, padded_to, device)
    return Exchange(rows, sent, chunks, place_R, group, travel)


def start_dispatch(x_TH: Tensor, exchange: Exchange) -> Started:
    """Send a copy of each token to each of its experts. Calling the result waits for the rows [A, H] for this rank."""
    x_RH = to_rows(x_TH, exchange.rows)
    if exchange.place_R is not None:
        x_RH = x_RH.new_zeros(sum(exchange.sent), x_RH.shape[1]).index_copy(0, exchange.place_R, x_RH)
    group, travel = exchange.group, exchange.travel
    return start_all_to_all(x_RH, exchange.sent, exchange.received, group=group, travel=travel)


def start_combine(y_AH: Tensor, weights_TK: Tensor, exchange: Exchange) -> Started:
    """Send the experts' rows back. Calling the result waits for them and returns each token's weighted sum [T, H]."""
    group, travel = exchange.group, exchange.travel
    started = start_all_to_all(y_AH, exchange.received, exchange.sent, group=group, travel=travel)

    def tokens() -> Tensor:
        y_RH = started()
        if exchange.place_R is not None:
            y_RH = y_RH.index_select(0, exchange.place_R)
        return from_rows(y_RH, weights_TK, exchange.rows)

    return tokens


def dispatched(x_TH: Tensor, exchange: Exchange) -> Tensor:
    """Dispatch and wait for the rows."""
    return start_dispatch(x_TH, exchange)()


def combined(y_AH: Tensor, weights_TK: Tensor, exchange: Exchange) -> Tensor:
    """Combine and wait for the weighted sums."""
    return start_combine(y_AH, weights_TK, exchange)()


def by_expert(x_AH: Tensor, chunks: Chunks) -> Tensor:
    """Reorder rows from by source to by expert."""
    if len(chunks) == 1 or len(chunks[0]) == 1:
        return x_AH
    pieces = x_AH.split([count for of_source in chunks for count in of_source])
    num_own = len(chunks[0])
    return torch.cat([piece for expert in range(num_own) for piece in pieces[expert::num_own]])


def by_source(y_AH: Tensor, chunks: Chunks) -> Tensor:
    """Reorder rows from by expert back to by source."""
    if len(chunks) == 1 or len(chunks[0]) == 1:
        return y_AH
    pieces = y_AH.split([of_source[expert] for expert in range(len(chunks[0])) for of_source in chunks])
    return torch.cat([piece for source in range(len(chunks)) for piece in pieces[source :: len(chunks)]])


def sizes_of(chunks: Chunks) -> list[int]:
    """The number of rows of each own expert, from all sources."""
    return [sum(counts) for counts in zip(*chunks, strict=True)]
