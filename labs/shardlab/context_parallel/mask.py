"""Who sees whom: causal or not, within documents; and the same as rectangles and triangles of a block of scores.

Every query sees an interval of positions, so a block of queries x keys falls into few tiles that a kernel computes
without a mask; what nobody sees is in no tile and costs nothing.
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

Strip = tuple[tuple[int, int], ...]  # places from a begin to an end, several times


class Tile(NamedTuple):
    """Queries `rows` and keys `keys` of some sequences of a batch, all pairs of them; causal: query i up to key i."""

    batch: slice
    rows: slice
    keys: slice
    causal: bool

    @property
    def pairs(self) -> int:
        """Scores that the kernel has to compute in one sequence: its work."""
        rows, keys = self.rows.stop - self.rows.start, self.keys.stop - self.keys.start
        return rows * (rows + 1) // 2 if self.causal else rows * keys


@dataclass(frozen=True)
class Mask:
    """causal: no query sees a later key. documents: lengths of those that are packed in each sequence of the batch.

    documents: () for one document, one entry for all sequences alike, or an entry for each. No query sees a key of
    another document. Raises ValueError for lengths below 1.
    """

    causal: bool = True
    documents: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        for lengths in self.documents:
            if not lengths or min(lengths) < 1:
                raise ValueError(f"documents of {list(lengths)} tokens: each has 1 or more")

    def problem(self, length: int, batch: int) -> str | None:
        """Why this mask is not one of so many tokens and sequences, with what would fit; None where it is."""
        if len(self.documents) not in (0, 1, batch):
            return f"documents of {len(self.documents)} sequences for a batch of {batch}: give 1 list, or {batch}"
        for lengths in self.documents:
            if sum(lengths) != length:
                return f"documents of {sum(lengths)} tokens in a sequence of {length}: their lengths add up to {length}"
        return None

    def seen(self, positions: Tensor, length: int, lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """First position, and the one behind the last, that queries at these positions see."""
        ends = torch.tensor([0, *accumulate(lengths or (length,))])
        document = torch.searchsorted(ends, positions, right=True)
        return ends[document - 1], positions + 1 if self.causal else ends[document]

    def position_ids(self, positions: Tensor, length: int, sequence: int = 0) -> Tensor:
        """Places within the own document of tokens at these positions of the batch's `sequence`."""
        lengths = self.documents[sequence % len(self.documents)] if self.documents else ()
        first, _ = self.seen(positions, length, lengths)
        return positions - first


SMALL, LARGE = 128, 1024  # most queries of a triangle, and of a rectangle
STRIP = 256  # most keys of a rectangle in a backward: two squares of 256 queries and these stay in a cache of 1 MiB
CAUSAL, FULL = Mask(), Mask(causal=False)


@lru_cache(maxsize=4096)
def tiles(
    layout: SequenceLayout, rank: int, other: int | None, mask: Mask, strip: Strip | None = None
) -> tuple[Tile, ...]:
    """Tiles of a rank's queries with the keys of an`other` rank, or with all keys in order of positions (None).

    strip: those keys alone, counted from the first one, that lie within these bounds.
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
    """The same pairs in tiles that suit the CPU's kernel: a large triangle is two small ones and a square, and so on.

    Flash attention skips what a causal mask hides in strips of hundreds of keys: of a triangle of 512 queries the CPU's
    kernel computes the whole square. Large rectangles are cut too, as the result of a tile lies beside that of all.
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
    """Equal parts of at most so many."""
    return cut(some, -(-(some.stop - some.start) // most))


def cut(some: slice, num: int) -> list[slice]:
    """So many equal parts."""
    size = some.stop - some.start
    return [slice(some.start + size * part // num, some.start + size * (part + 1) // num) for part in range(num)]


def pieces_of(first: list[int], behind: list[int]) -> list[tuple[slice, slice, bool]]:
    """Cut a staircase into rectangles and triangles: query i sees the keys first[i] to behind[i] - 1.

    Rows that begin at one key form a run while they all end at one key, or each ends one key behind the row before.
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
    corner = behind - 1  # the key that the first row sees last
    before = [(slice(begin, end), slice(first, corner), False)] if corner > first else []
    return [*before, (slice(begin, end), slice(corner, corner + end - begin), True)]
