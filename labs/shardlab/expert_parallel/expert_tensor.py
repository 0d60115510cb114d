"""Ranks that share each expert's matrices: every rank has a part of the width F, so it needs its partners' rows, too.

Shapes: A rows of this rank, G rows of all partners together, H hidden, F width, t partners.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.model import divisors
from shardlab.expert_parallel.agreement import Group, gathered_counts
from shardlab.expert_parallel.dispatch import Chunks, by_expert, by_source, sizes_of
from shardlab.expert_parallel.messages import all_to_all
from shardlab.model.experts import Experts

Computed = Callable[[Tensor, Chunks], Tensor]


def own_part(experts: Experts, mine: slice, *, group: dist.ProcessGroup | None) -> Experts:
    """This rank's experts `mine`; where there is a group, of each only the part of F that is this rank's.

    Raises ValueError where the ranks do not divide the width.
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
    """The experts on rows that lie by source."""

    def computed(x_AH: Tensor, chunks: Chunks) -> Tensor:
        return by_source(experts(by_expert(x_AH, chunks), sizes_of(chunks)), chunks)

    return computed


def computed_in_parts(experts: Experts, *, group: Group) -> Computed:
    """The same by t partners: gather all their rows, compute with this rank's part of F, add up and take the own rows.

    An all-gather and a reduce-scatter of uneven parts, as all-to-alls: each sends (t-1)/t of t*A rows. The partners
    must have different tokens, as data-parallel ranks have.
    """
    alone = computed_alone(experts)

    def computed(x_AH: Tensor, chunks: Chunks) -> Tensor:
        size = dist.get_world_size(group)
        own_counts = [count for of_source in chunks for count in of_source]
        by_rank = gathered_counts(own_counts, has_gradient=x_AH.requires_grad, trouble="", group=group)
        theirs, num_own = [sum(counts) for counts in by_rank], len(chunks[0])
        all_chunks = [counts[i : i + num_own] for counts in by_rank for i in range(0, len(counts), num_own)]
        x_GH = all_to_all(x_AH.repeat(size, 1), [len(x_AH)] * size, theirs, group=group, agreed=True)
        part_GH = alone(x_GH, all_chunks)
        parts = all_to_all(part_GH, theirs, [len(x_AH)] * size, group=group, agreed=True)
        return parts.view(size, *x_AH.shape).sum(0)

    return computed
