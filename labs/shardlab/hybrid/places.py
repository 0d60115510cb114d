"""Where a rank's parameters are in the whole model: their global names and their boxes of rows and columns.

A parameter split over tp, ep or etp is one or more boxes of a whole tensor (queries, keys and values; up projection and
gate). A ZeRO shard of it is a range of its flattened elements, which is again a few boxes. This is pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from torch import Tensor

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
