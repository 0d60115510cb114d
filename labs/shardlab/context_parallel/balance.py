"""Which rank has which tokens of a sequence, as data: a list of chunks per rank, each a `range` of positions.

Under a causal mask, late tokens see more keys than early ones. Example: 8 tokens, each shown by its rank (c = 2 ranks):

| layout | tokens 0 to 7 | most work / mean |
|---|---|---|
| contiguous | 0 0 0 0 1 1 1 1 | 2 - 1/c |
| zig-zag | 0 0 1 1 1 1 0 0 | 1 |
| striped | 0 1 0 1 0 1 0 1 | 1 + (c-1)/(s+1), arXiv 2311.09431 |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain

import torch
from torch import Tensor

from shardlab.costs.models.model import divisors

Chunks = tuple[tuple[range, ...], ...]


@dataclass(frozen=True)
class SequenceLayout:
    """chunks[rank]: the positions that a rank holds, in order.

    Raises ValueError unless each position from 0 on occurs exactly once, every rank has the same number of positions,
    and each rank holds them in ascending order.
    """

    chunks: Chunks

    def __post_init__(self) -> None:
        by_rank = [[*chain(*chunks)] for chunks in self.chunks]
        counts = [len(positions) for positions in by_rank]
        if not counts or not all(counts) or len({*counts}) > 1:
            raise ValueError(f"the ranks have {counts} tokens: give every rank the same number, 1 or more")
        if sorted(chain(*by_rank)) != list(range(sum(counts))):
            raise ValueError(f"a layout of {sum(counts)} tokens must have each position 0 to {sum(counts) - 1} once")
        for rank, positions in enumerate(by_rank):
            if positions != sorted(positions):
                raise ValueError(f"rank {rank} holds {positions[:8]}: give its chunks in ascending order")

    @cached_property
    def length(self) -> int:
        """s, tokens of the whole sequence."""
        return sum(len(chunk) for chunks in self.chunks for chunk in chunks)

    @property
    def num_ranks(self) -> int:
        """c."""
        return len(self.chunks)

    @property
    def tokens_per_rank(self) -> int:
        """s/c."""
        return self.length // self.num_ranks

    def positions(self, rank: int) -> Tensor:
        """Positions [s/c] of a rank's tokens, as int64."""
        return torch.tensor([*chain(*self.chunks[rank])])

    def strips(self, most: int) -> list[tuple[tuple[int, int], ...]]:
        """A rank's indices 0 to s/c - 1 in at most `most` pieces, each a strip (begin, end) of every chunk.

        The pieces are the same on every rank. If a whole block is equal work for all ranks, so is each piece. With half
        a zig-zag block instead, one rank would see everything and another nothing.
        """
        lengths = {tuple(map(len, chunks)) for chunks in self.chunks}
        sizes = lengths.pop() if len(lengths) == 1 else (self.tokens_per_rank,)
        num = max(1, min(most, *sizes))
        chunks = [(end - size, size) for end, size in zip(accumulate(sizes), sizes, strict=True)]
        return [
            tuple((begin + size * piece // num, begin + size * (piece + 1) // num) for begin, size in chunks)
            for piece in range(num)
        ]

    def all_positions(self) -> Tensor:
        """Positions [s] of the tokens of rank 0, then rank 1, and so on."""
        return torch.cat([self.positions(rank) for rank in range(self.num_ranks)])

    def within(self, first: int, count: int) -> SequenceLayout:
        """The layout of the tokens that `count` ranks from `first` on have together, renumbered from 0."""
        some = self.chunks[first : first + count]
        held = [[*chain(*chunks)] for chunks in some]
        place = {position: number for number, position in enumerate(sorted(chain(*held)))}
        return SequenceLayout(tuple(_as_ranges([place[position] for position in positions]) for positions in held))

    def merged(self, num_together: int) -> SequenceLayout:
        """The layout if each `num_together` neighboring ranks count as one: that of the outer ring of two levels."""
        firsts = range(0, self.num_ranks, num_together)
        held = [sorted(chain(*chain(*self.chunks[first : first + num_together]))) for first in firsts]
        return SequenceLayout(tuple(map(_as_ranges, held)))


@lru_cache
def contiguous(length: int, num_ranks: int) -> SequenceLayout:
    """Rank r has the r-th of c equal pieces."""
    _check(length, num_ranks, 1)
    size = length // num_ranks
    return SequenceLayout(tuple((range(rank * size, (rank + 1) * size),) for rank in range(num_ranks)))


@lru_cache
def zigzag(length: int, num_ranks: int) -> SequenceLayout:
    """Rank r has the r-th of 2c equal pieces from the front and the r-th from the back (arXiv 2407.21783, 3.3.2)."""
    _check(length, num_ranks, 2)
    size, last = length // num_ranks // 2, 2 * num_ranks - 1
    piece = [range(number * size, (number + 1) * size) for number in range(last + 1)]
    return SequenceLayout(tuple((piece[rank], piece[last - rank]) for rank in range(num_ranks)))


@lru_cache
def striped(length: int, num_ranks: int) -> SequenceLayout:
    """Rank r has every c-th token, starting at r (arXiv 2311.09431, section 3)."""
    _check(length, num_ranks, 1)
    return SequenceLayout(tuple((range(rank, length, num_ranks),) for rank in range(num_ranks)))


def own_part(x: Tensor, layout: SequenceLayout, rank: int, dim: int = 1) -> Tensor:
    """A rank's part of a whole x along its token dimension. x may be tokens, labels or position ids.

    Raises ValueError if x does not have the layout's length.
    """
    if x.shape[dim] != layout.length:
        raise ValueError(f"{x.shape[dim]} tokens do not fit a layout of {layout.length}: give the whole sequence")
    return x.index_select(dim, layout.positions(rank).to(x.device))


def in_order(parts: tuple[Tensor, ...] | list[Tensor], layout: SequenceLayout, dim: int = 1) -> Tensor:
    """The whole from all ranks' parts: the inverse of `own_part`. Chunks are copied once, stripes twice."""
    if any(chunk.step != 1 for chunks in layout.chunks for chunk in chunks):
        return torch.cat(list(parts), dim).index_select(dim, layout.all_positions().argsort().to(parts[0].device))
    pieces = []
    for part, chunks in zip(parts, layout.chunks, strict=True):
        split = part.split([len(chunk) for chunk in chunks], dim)
        pieces += [(chunk.start, piece) for chunk, piece in zip(chunks, split, strict=True)]
    return torch.cat([piece for _, piece in sorted(pieces, key=lambda one: one[0])], dim)


def parted(x: Tensor, layout: SequenceLayout, dim: int = 1) -> list[Tensor]:
    """Each rank's part of a whole along its token dimension: the inverse of `in_order`."""
    if any(chunk.step != 1 for chunks in layout.chunks for chunk in chunks):
        return list(x.index_select(dim, layout.all_positions().to(x.device)).chunk(layout.num_ranks, dim))
    ordered = sorted((chunk.start, len(chunk), rank) for rank, chunks in enumerate(layout.chunks) for chunk in chunks)
    pieces: list[list[Tensor]] = [[] for _ in layout.chunks]
    for (_, _, rank), piece in zip(ordered, x.split([length for _, length, _ in ordered], dim), strict=True):
        pieces[rank].append(piece)
    return [torch.cat(some, dim) if len(some) > 1 else some[0] for some in pieces]


def _as_ranges(positions: list[int]) -> tuple[range, ...]:
    """Ascending positions as ranges, each as long as its step stays the same."""
    found, begin = [], 0
    while begin < len(positions):
        step = positions[begin + 1] - positions[begin] if begin + 1 < len(positions) else 1
        end = begin + 1
        while end < len(positions) and positions[end] - positions[end - 1] == step:
            end += 1
        found.append(range(positions[begin], positions[end - 1] + 1, step if end > begin + 1 else 1))
        begin = end
    return tuple(found)


def _check(length: int, num_ranks: int, chunks_each: int) -> None:
    pieces = max(1, num_ranks * chunks_each)
    if num_ranks < 1 or length < 1 or length % pieces:
        near = [multiple for multiple in (length // pieces * pieces, (length // pieces + 1) * pieces) if multiple > 0]
        fits = [size // chunks_each for size in divisors(max(1, length)) if size % chunks_each == 0]
        raise ValueError(
            f"a sequence of {length} cannot be split into {pieces} pieces, {chunks_each} on each of {num_ranks} ranks: "
            f"use a length of {' or '.join(map(str, near))}" + (f", or ranks among {fits[:8]}" if fits else "")
        )
