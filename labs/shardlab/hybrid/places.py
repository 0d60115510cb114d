"""Where a rank's parameters are in the whole model: their global names and their boxes of rows and columns.

A parameter split over tp, ep or etp is one or more boxes of a whole tensor (queries, keys and values; up projection and
gate). A ZeRO shard of it is a range of its flattened elements, which is again a few boxes. This is pure arithmetic.
The boxes follow from how tensor_parallel and expert_parallel split a stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch.distributed as dist
from torch import Tensor, nn

from shardlab.expert_parallel.layer import ParallelMoE
from shardlab.hybrid.part import PartOfModel
from shardlab.mesh.process_groups import ProcessGroups
from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.gradients import cuts_of

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class ShardBlock:
    """A block of a rank's tensor: where it begins there, its sizes, and where it begins in the whole tensor.

    copies: how many of the ranks that share a tensor hold this block. copy: this rank's index among them.
    """

    local: Sizes
    sizes: Sizes
    offsets: Sizes
    copies: int = 1
    copy: int = 0


@dataclass(frozen=True)
class ParameterPlace:
    """A parameter's name and shape in the whole model, and this rank's boxes of it.

    number: index among the parameters of a stage, the same on all its ranks. is_twin: the parameter is counted and
    saved by another stage, which also holds it (a head tied to the embedding).
    """

    name: str
    shape: Sizes
    boxes: tuple[ShardBlock, ...]
    number: int
    is_expert: bool = False
    is_twin: bool = False


@dataclass(frozen=True)
class FlatShard:
    """A block of a flat vector that is also a block of the whole tensor.

    begin, rows: the elements begin : begin + prod(rows) of the vector, viewed with the shape `rows`. inside: the block
    within that view. offsets: where the block begins in the whole tensor.
    """

    begin: int
    rows: Sizes
    inside: tuple[slice, ...]
    offsets: Sizes
    copies: int
    copy: int

    def of(self, flat: Tensor) -> Tensor:
        """The block as a view of the vector's memory."""
        return flat[self.begin : self.begin + prod(self.rows)].view(self.rows)[self.inside]


def whole_place(name: str, shape: Sequence[int], number: int, *, copies: int, copy: int) -> ParameterPlace:
    """The place of a parameter that every tp rank holds whole."""
    sizes = tuple(shape)
    return ParameterPlace(name, sizes, (ShardBlock((0,) * len(sizes), sizes, (0,) * len(sizes), copies, copy),), number)


def fragments(place: ParameterPlace, shape: Sequence[int], begin: int, end: int, *, at: int = 0) -> list[FlatShard]:
    """The elements begin : end of a rank's flattened tensor as blocks of the whole tensor.

    These elements are stored in a vector, starting at `at`. shape: of the rank's tensor. For d dimensions there are at
    most 2d - 1 blocks per box. Padding is in no block.
    """
    found = []
    for start, sizes in rectangles(tuple(shape), begin, end):
        first = at + _flat(start, shape) - begin
        for box in place.boxes:
            low = [max(*pair) for pair in zip(start, box.local, strict=True)]
            ends = [
                min(s + n, b + m) for s, n, b, m in zip(start, sizes, box.local, box.sizes, strict=True)
            ]  # of the rectangle and of the box
            if any(lowest >= highest for lowest, highest in zip(low, ends, strict=True)):
                continue
            inside = tuple(slice(a - s, e - s) for a, e, s in zip(low, ends, start, strict=True))
            offsets = tuple(o + a - b for o, a, b in zip(box.offsets, low, box.local, strict=True))
            found.append(FlatShard(first, sizes, inside, offsets, box.copies, box.copy))
    return found


def rectangles(shape: Sizes, begin: int, end: int) -> Iterator[tuple[Sizes, Sizes]]:
    """The elements begin : end of a flattened tensor as rectangles (start, sizes), each contiguous in memory.

    In a matrix these are the end of one row, some whole rows, and the beginning of another row.
    """
    if begin >= end:
        return
    if not shape:
        yield (), ()
        return
    inner = prod(shape[1:])
    first, last = -(-begin // inner), end // inner  # whole rows
    if first > last:  # inside one row
        yield from _in_row(last, shape, begin - last * inner, end - last * inner)
        return
    if begin < first * inner:
        yield from _in_row(first - 1, shape, begin - (first - 1) * inner, inner)
    if first < last:
        yield (first, *(0,) * (len(shape) - 1)), (last - first, *shape[1:])
    if last * inner < end:
        yield from _in_row(last, shape, 0, end - last * inner)


def _in_row(row: int, shape: Sizes, begin: int, end: int) -> Iterator[tuple[Sizes, Sizes]]:
    for start, sizes in rectangles(shape[1:], begin, end):
        yield (row, *start), (1, *sizes)


def _flat(start: Sequence[int], shape: Sequence[int]) -> int:
    """The index in the flattened tensor."""
    number = 0
    for index, size in zip(start, shape, strict=True):
        number = number * size + index
    return number


TIED = "token.weight"  # the name of a weight that is both embedding and head


def places_of(part: PartOfModel, groups: ProcessGroups, *, has_twin: bool) -> dict[nn.Parameter, ParameterPlace]:
    """The place of every parameter of a stage. has_twin: its head is tied to an embedding on another rank."""
    cuts, experts = cuts_of(part), _experts(part)
    rank, size = dist.get_rank(groups.of("tp")), dist.get_world_size(groups.of("tp"))
    found: dict[nn.Parameter, ParameterPlace] = {}
    for number, (name, one) in enumerate(part.named_parameters()):
        shape = tuple(one.shape)
        if one in experts:
            found[one] = expert_place(name, shape, number, sections=experts[one], groups=groups)
        elif name in cuts:
            found[one] = cut_place(name, shape, number, cut=cuts[name], rank=rank, size=size)
        else:
            found[one] = whole_place(name, shape, number, copies=size, copy=rank)
        if name == "head.weight" and has_twin:
            found[one] = ParameterPlace(TIED, found[one].shape, found[one].boxes, number, is_twin=True)
    return found


def cut_place(name: str, shape: tuple[int, ...], number: int, *, cut: Cut, rank: int, size: int) -> ParameterPlace:
    """The place of tp rank `rank`'s part of a parameter: one box per section. Padding is in no box."""
    dim = cut.dim % len(shape)
    boxes, local, section_begin = [], 0, 0
    for index, section in enumerate(cut.sections):
        length, copies = cut.shard(index, size)
        offset = rank // copies * length
        real = max(0, min(length, section - offset))
        begins, ends = [0] * len(shape), [0] * len(shape)
        begins[dim], ends[dim] = local, section_begin + offset
        sizes = (*shape[:dim], real, *shape[dim + 1 :])
        boxes.append(ShardBlock(tuple(begins), sizes, tuple(ends), copies, rank % copies))
        local, section_begin = local + length, section_begin + section
    whole = (*shape[:dim], sum(cut.sections), *shape[dim + 1 :])
    return ParameterPlace(name, whole, tuple(boxes), number)


def expert_place(
    name: str, shape: tuple[int, ...], number: int, *, sections: tuple[int, int], groups: ProcessGroups
) -> ParameterPlace:
    """The place of experts [E/ep, ...], split over etp along dimension `sections[0]` of `sections[1]` matrices."""
    dim, num_together = sections
    here, mesh = groups.mesh.coordinates(dist.get_rank()), groups.mesh
    width = shape[dim] // num_together
    boxes = []
    for index in range(num_together):
        local, offsets = [0] * len(shape), [0] * len(shape)
        local[dim], offsets[dim] = index * width, (index * mesh.expert_tp + here["etp"]) * width
        offsets[0] = here["ep"] * shape[0]
        boxes.append(ShardBlock(tuple(local), (*shape[:dim], width, *shape[dim + 1 :]), tuple(offsets)))
    whole = [shape[0] * mesh.ep, *shape[1:]]
    whole[dim] *= mesh.expert_tp
    return ParameterPlace(name, tuple(whole), tuple(boxes), number, is_expert=True)


def _experts(part: PartOfModel) -> dict[nn.Parameter, tuple[int, int]]:
    """For each expert parameter, the dimension that etp splits and how many matrices are concatenated along it."""
    found = {}
    for layer in part.modules():
        if isinstance(layer, ParallelMoE):
            found[layer.experts.up] = 2, 2 if layer.experts.is_gated else 1
            found[layer.experts.down] = 1, 1
    return found
