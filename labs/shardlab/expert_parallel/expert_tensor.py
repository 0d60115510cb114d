"""Expert tensor parallelism: each rank holds a part of the width F of each expert, and needs its partners' tokens too.

Tokens are gathered either before they are copied for their k experts, or afterwards as rows. `costs.tokens_first` says
which of the two sends less.

Shapes: T tokens of this rank, A rows that arrive at it, G tokens or rows of all partners together, H hidden, F width,
K choices of a token, t partners.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.models.model import divisors
from shardlab.expert_parallel.agreement import Group, gathered_counts
from shardlab.expert_parallel.dispatch import Chunks, by_expert, by_source, sizes_of
from shardlab.expert_parallel.messages import Travel, all_to_all
from shardlab.model.experts import Experts

Computed = Callable[[Tensor, Chunks], Tensor]


@dataclass(frozen=True)
class Tokens:
    """Tokens and the router's decisions for them. kept_TK: which choices are not dropped; None means all are kept."""

    x_TH: Tensor
    experts_TK: Tensor
    weights_TK: Tensor
    kept_TK: Tensor | None = None


def own_part(experts: Experts, mine: slice, *, group: dist.ProcessGroup | None) -> Experts:
    """This rank's experts `mine`. If there is a group, only this rank's part of F of each expert.

    Raises ValueError if the ranks do not divide the width.
    """
    part = Experts.__new__(Experts)
    nn.Module.__init__(part)
    part.method, part.is_gated = experts.method, experts.is_gated
    rank, size = (0, 1) if group is None else (dist.get_rank(group), dist.get_world_size(group))
    width = experts.down.shape[1]
    if width % size:
        raise ValueError(
            f"experts of width {width} cannot be split over {size} ranks: use an expert-tensor-parallel size among "
            f"{divisors(width)}"
        )
    own = slice(rank * width // size, (rank + 1) * width // size)
    up = experts.up.detach()[mine].unflatten(-1, (-1, width))[..., own].flatten(-2)
    down = experts.down.detach()[mine, own]
    part.up = nn.Parameter(up.clone(), requires_grad=experts.up.requires_grad)
    part.down = nn.Parameter(down.clone(), requires_grad=experts.down.requires_grad)
    return part


def computed_alone(experts: Experts) -> Computed:
    """Apply the experts to rows ordered by source."""

    def computed(x_AH: Tensor, chunks: Chunks) -> Tensor:
        return by_source(experts(by_expert(x_AH, chunks), sizes_of(chunks)), chunks)

    return computed


def gathered_tokens(tokens: Tokens, *, group: Group, travel: Travel) -> tuple[Tokens, list[int]]:
    """The tokens of all t partners with their own rank's routing, and the number of tokens from each partner.

    A rank sends its tokens to t-1 partners, with K weights and K expert indices of 4 bytes each. The backward sums the
    gradients from all partners' parts of F. Raises the same ValueError on every partner if one of them has trouble.
    """
    x_TH, experts_TK = tokens.x_TH, tokens.experts_TK
    by_rank = gathered_counts([len(x_TH)], has_gradient=x_TH.requires_grad, trouble="", group=group)
    theirs = [counts[0] for counts in by_rank]
    if tokens.kept_TK is not None:
        experts_TK = experts_TK.masked_fill(~tokens.kept_TK, -1)
    x_GH, experts_GK, weights_GK = (
        _gathered(one, theirs, group, travel) for one in (x_TH, experts_TK.int(), tokens.weights_TK)
    )
    return Tokens(x_GH, experts_GK.long().clamp(min=0), weights_GK, experts_GK >= 0), theirs


def own_sum(parts_GH: Tensor, theirs: list[int], *, group: Group, travel: Travel) -> Tensor:
    """The sum of all partners' parts of this rank's tokens: a reduce-scatter of uneven parts."""
    mine, size = theirs[dist.get_rank(group)], len(theirs)
    parts = all_to_all(parts_GH, theirs, [mine] * size, group=group, agreed=True, travel=travel)
    return parts.view(size, mine, parts_GH.shape[1]).sum(0)


def computed_in_parts(experts: Experts, *, group: Group, travel: Travel) -> Computed:
    """Apply experts that t partners share: gather all rows, compute with this rank's part of F, sum this rank's rows.

    Each partner sends (t-1)/t of t*A rows, twice. Partners must have different tokens, as data-parallel ranks do.
    """
    alone = computed_alone(experts)

    def computed(x_AH: Tensor, chunks: Chunks) -> Tensor:
        own_counts = [count for of_source in chunks for count in of_source]
        by_rank = gathered_counts(own_counts, has_gradient=x_AH.requires_grad, trouble="", group=group)
        theirs, num_own = [sum(counts) for counts in by_rank], len(chunks[0])
        all_chunks = [counts[i : i + num_own] for counts in by_rank for i in range(0, len(counts), num_own)]
        part_GH = alone(_gathered(x_AH, theirs, group, travel), all_chunks)
        return own_sum(part_GH, theirs, group=group, travel=travel)

    return computed


def _gathered(one: Tensor, theirs: list[int], group: Group, travel: Travel) -> Tensor:
    """An all-gather of uneven parts, implemented as an all-to-all. Its backward is a reduce-scatter."""
    size = len(theirs)
    copies = torch.cat([one] * size)
    return all_to_all(copies, [len(one)] * size, theirs, group=group, agreed=True, travel=travel)
