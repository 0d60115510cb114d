"""Check that ranks agree on what they exchange, before any row is sent. Gloo aborts the process if they do not."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from shardlab.costs.models.model import divisors
from shardlab.meter import place
from shardlab.model.router import Choice
from shardlab.ranks.agreement import first_difference

place.hide(__file__)

Group = dist.ProcessGroup | None


def check_same_layer(choice: Choice, module: nn.Module, *, group: Group) -> None:
    """Raise the same ValueError on every rank if the ranks of a group have different choices or parameters."""
    lines = [f"{choice.k} of {choice.experts} experts, {choice.groups_per_token} of {choice.groups} groups"]
    lines += [
        f"{name} {list(one.shape)} {one.dtype}{'' if one.requires_grad else ', frozen'}"
        for name, one in module.named_parameters()
    ]
    if found := first_difference(lines, group=group):
        raise ValueError(
            f"rank {found.rank} has a different layer from rank 0: {found.line}, but rank 0 has {found.line_of_first}. "
            "Build the same layer on every rank."
        )


def gathered_counts(sizes: Sequence[int], *, has_gradient: bool, trouble: str, group: Group) -> list[list[int]]:
    """Rows for each expert from every rank, [ranks][experts]. All ranks read one table, so their splits always match.

    trouble: why this rank cannot continue, or "". Raises the same ValueError on every rank if any rank has trouble, or
    if only some ranks' inputs require a gradient: ranks without one would send nothing in the backward, and the other
    ranks would wait forever.
    """
    device = dist.distributed_c10d._get_object_coll_device(group)
    mine = torch.tensor([_flags(trouble, has_gradient), *sizes], device=device)
    table = mine.new_empty(dist.get_world_size(group), len(mine))
    dist.all_gather_single(table, mine.unsqueeze(0), group=group)
    return _checked(table.tolist(), trouble, group)


def own_counts(
    counts_E: Tensor, *, has_gradient: bool, trouble: str, group: Group
) -> tuple[list[int], list[list[int]]]:
    """This rank's rows for every expert [experts], and every rank's rows for its own experts [source][own expert].

    Each rank sends each other rank only the counts it needs, one message per pair and all at once, whereas
    `gathered_counts` passes around the whole table. Raises ValueError in the same cases.
    """
    size = dist.get_world_size(group)
    counts = counts_E.to(dist.distributed_c10d._get_object_coll_device(group))
    mine = functional.pad(counts.view(size, -1), (1, 0), value=_flags(trouble, has_gradient))
    table = torch.empty_like(mine)
    dist.all_to_all_single(table, mine, group=group)
    numbers: list[int] = torch.cat([counts, table.flatten()]).tolist()  # so that the host waits for the GPU only once
    sizes, lines = numbers[: len(counts)], numbers[len(counts) :]
    each = mine.shape[1]
    return sizes, _checked([lines[first : first + each] for first in range(0, len(lines), each)], trouble, group)


def _flags(trouble: str, has_gradient: bool) -> int:
    """The first entry of a rank's line: 1 if the rank has trouble, plus 2 if its input requires a gradient."""
    return bool(trouble) + 2 * has_gradient


def _checked(table: list[list[int]], trouble: str, group: Group) -> list[list[int]]:
    """The counts in a table whose lines begin with a rank's flags. Raises ValueError if the flags show a problem."""
    flags = [line[0] for line in table]
    if any(one & 1 for one in flags):
        raise ValueError(_first_trouble(trouble, group))
    if odd := [rank for rank, one in enumerate(flags) if one != flags[0]]:
        raise ValueError(
            f"the input of rank {odd[0]} {_gradient(flags[odd[0]])}, but the input of rank 0 {_gradient(flags[0])}: "
            "one would wait forever for the other's backward. Let the inputs require a gradient on all ranks or none."
        )
    return [line[1:] for line in table]


def _gradient(has: int) -> str:
    return "has a gradient" if has else "has none"


def _first_trouble(trouble: str, group: Group) -> str:
    by_rank: list[str] = [""] * dist.get_world_size(group)
    dist.all_gather_object(by_rank, trouble, group=group)
    return next(f"rank {rank}: {theirs}" for rank, theirs in enumerate(by_rank) if theirs)


def check_counts(sent: Sequence[int], received: Sequence[int], num_rows: int, *, group: Group) -> None:
    """Raise the same ValueError on every rank unless each rank expects from every other rank what that rank sends."""
    size = dist.get_world_size(group)
    device = dist.distributed_c10d._get_object_coll_device(group)
    is_table = len(sent) == len(received) == size
    line = [num_rows, *sent, *received] if is_table else [-1, len(sent), len(received), *[0] * (2 * size - 2)]
    mine = torch.tensor(line, device=device, dtype=torch.int64)
    table = mine.new_empty(size, 1 + 2 * size)
    dist.all_gather_single(table, mine.unsqueeze(0), group=group)
    for rank, (rows, *counts) in enumerate(table.tolist()):
        if rows < 0:
            raise ValueError(f"rank {rank} has {counts[0]} and {counts[1]} counts for {size} ranks: give one per rank")
        if min(counts) < 0 or sum(counts[:size]) != rows:
            raise ValueError(
                f"rank {rank} sends {counts[:size]} of {rows} rows: give counts of 0 or more that add up to its rows"
            )
    sends, expects = table[:, 1 : 1 + size], table[:, 1 + size :].t()
    if (wrong := (sends != expects).nonzero()).numel():
        source, target = wrong[0].tolist()
        raise ValueError(
            f"rank {source} sends {sends[source, target]} rows to rank {target}, which expects "
            f"{expects[source, target]}: exchange the counts first"
        )


def own_experts(num_experts: int, *, group: Group) -> slice:
    """The experts of this rank. Raises ValueError, listing valid sizes, if the ranks do not divide the experts."""
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    if num_experts % size:
        raise ValueError(
            f"{num_experts} experts cannot be split over {size} ranks: use an expert-parallel size among "
            f"{divisors(num_experts)}"
        )
    each = num_experts // size
    return slice(rank * each, (rank + 1) * each)
