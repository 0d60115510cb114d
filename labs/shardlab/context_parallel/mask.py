"""Which query sees which keys (causal or not, within documents), and the same as tiles of a block of scores.

Every query sees an interval of positions, so a block of queries x keys splits into a few rectangles and triangles that
a kernel computes without a mask. Masked pairs are in no tile and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from shardlab.context_parallel.balance import SequenceLayout

Strip = tuple[tuple[int, int], ...]  # several (begin, end) intervals of indices


class Tile(NamedTuple):
    """All pairs of queries `rows` and keys `keys` of some sequences of a batch. causal: query i sees keys up to i."""

    batch: slice
    rows: slice
    keys: slice
    causal: bool

    @property
    def pairs(self) -> int:
        """The number of scores that the kernel computes per sequence, which is its work."""
        rows, keys = self.rows.stop - self.rows.start, self.keys.stop - self.keys.start
        return rows * (rows + 1) // 2 if self.causal else rows * keys


@dataclass(frozen=True)
class Mask:
    """causal: no query sees a later key. documents: lengths of the documents packed into each sequence of the batch.

    documents: () for one document per sequence, one entry for all sequences, or one entry per sequence. No query sees a
    key of another document. Raises ValueError for lengths below 1.
    """

    causal: bool = True
    documents: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        for lengths in self.documents:
            if not lengths or min(lengths) < 1:
                raise ValueError(f"documents of {list(lengths)} tokens: give each document 1 or more")

    def problem(self, length: int, batch: int) -> str | None:
        """Why this mask does not fit a batch of sequences of this length, with a remedy, or None if it fits."""
        if len(self.documents) not in (0, 1, batch):
            return f"documents of {len(self.documents)} sequences for a batch of {batch}: give 1 list, or {batch}"
        for lengths in self.documents:
            if sum(lengths) != length:
                return f"documents of {sum(lengths)} tokens in a sequence of {length}: let the lengths sum to {length}"
        return None

    def seen(self, positions: Tensor, length: int, lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """The first position that each query at these positions sees, and one past the last."""
        ends = torch.tensor([0, *accumulate(lengths or (length,))])
        document = torch.searchsorted(ends, positions, right=True)
        return ends[document - 1], positions + 1 if self.causal else ends[document]

    def position_ids(self, positions: Tensor, length: int, sequence: int = 0) -> Tensor:
        """Each token's position within its document, for tokens at these positions of the batch's `sequence`."""
        lengths = self.documents[sequence % len(self.documents)] if self.documents else ()
        first, _ = self.seen(positions, length, lengths)
        return positions - first


SMALL, LARGE = 128, 1024  # maximum queries of a triangle, and of a rectangle
STRIP = 256  # maximum keys of a rectangle in a backward: two squares of 256 queries by 256 keys fit in a 1 MiB cache
CAUSAL, FULL = Mask(), Mask(causal=False)


@lru_cache(maxsize=4096)
def tiles(
    layout: SequenceLayout, rank: int, other: int | None, mask: Mask, strip: Strip | None = None
) -> tuple[Tile, ...]:
    """Tiles of a rank's queries with the keys of the `other` rank, or with all keys in position order (None).

    strip: only the keys whose index, counted from the first key, is within these bounds.
    """
    keys = torch.arange(layout.length) if other is None else layout.positions(other)
    if strip is not None:
        keys = torch.cat([keys[begin:end] for begin, end in strip])
    found: list[Tile] = []
    for number, lengths in enumerate(mask.documents or ((),)):
        batch = slice(number, number + 1) if len(mask.documents) > 1 else slice(None)
        first, behind = mask.seen(layout.positions(rank), layout.length, lengths)
        places = (torch.searchsorted(keys, bound).tolist() for bound in (first, behind))
        found += [Tile(batch, *piece) for piece in pieces_of(*places)]
    return tuple(found)


def halved(some: Iterable[Tile], most_keys: int | None = None) -> Iterator[Tile]:
    """The same pairs in tiles that suit the CPU kernel: a large triangle becomes two smaller ones and a square, etc.

    Flash attention skips causally masked keys only in strips of hundreds of keys: for a triangle of 512 queries, the
    CPU kernel computes the whole square. Large rectangles are split too, because the result of a tile takes memory in
    addition to the total.
    """
    for tile in some:
        if tile.causal and tile.rows.stop - tile.rows.start > SMALL:
            (first, later), (begin, end) = cut(tile.rows, 2), cut(tile.keys, 2)
            yield from halved((tile._replace(rows=later, keys=begin, causal=False),), most_keys)
            yield from halved((tile._replace(rows=first, keys=begin), tile._replace(rows=later, keys=end)), most_keys)
        elif tile.causal:
            yield tile
        else:
            for keys in cut_at(tile.keys, most_keys) if most_keys else [tile.keys]:
                yield from (tile._replace(rows=rows, keys=keys) for rows in cut_at(tile.rows, LARGE))


def cut_at(some: slice, most: int) -> list[slice]:
    """Split a slice into equal parts of at most `most`."""
    return cut(some, -(-(some.stop - some.start) // most))


def cut(some: slice, num: int) -> list[slice]:
    """Split a slice into `num` equal parts."""
    size = some.stop - some.start
    return [slice(some.start + size * part // num, some.start + size * (part + 1) // num) for part in range(num)]


def pieces_of(first: list[int], behind: list[int]) -> list[tuple[slice, slice, bool]]:
    """Split a staircase into rectangles and triangles: query i sees the keys first[i] to behind[i] - 1.

    Rows that begin at the same key form a run as long as they all end at the same key, or each ends one key after the
    previous row.
    """
    found: list[tuple[slice, slice, bool]] = []
    begin = 0
    while begin < len(first):
        end, rises = begin + 1, 0
        while end < len(first) and first[end] == first[begin]:
            rise = behind[end] - behind[end - 1]
            if rise not in (0, 1) or (end > begin + 1 and rise != rises):
                break
            end, rises = end + 1, rise
        found += _pieces_of_run(begin, end, first[begin], behind[begin], rises == 1)
        begin = end
    return found


def _pieces_of_run(begin: int, end: int, first: int, behind: int, rises: bool) -> list[tuple[slice, slice, bool]]:
    if not rises:
        return [(slice(begin, end), slice(first, behind), False)] if behind > first else []
    if behind <= first:  # the first row sees nothing
        begin, behind = begin + 1, first + 1
    corner = behind - 1  # the last key that the first row sees
    before = [(slice(begin, end), slice(first, corner), False)] if corner > first else []
    return [*before, (slice(begin, end), slice(corner, corner + end - begin), True)]
