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


SMALL, LARGE = 128, 1024  # queries of a triangle that is not worth cutting, and of a rectangle that is
CAUSAL, FULL = Mask(), Mask(causal=False)


@lru_cache(maxsize=4096)
def tiles(layout: SequenceLayout, rank: int, other: int | None, mask: Mask) -> tuple[Tile, ...]:
    """Tiles of a rank's queries with the keys of an`other` rank, or with all keys in order of positions (None)."""
    keys = torch.arange(layout.length) if other is None else layout.positions(other)
    found: list[Tile] = []
    for number, lengths in enumerate(mask.documents or ((),)):
        batch = slice(number, number + 1) if len(mask.documents) > 1 else slice(None)
        first, behind = mask.seen(layout.positions(rank), layout.length, lengths)
        places = (torch.searchsorted(keys, bound).tolist() for bound in (first, behind))
        found += [Tile(batch, *piece) for piece in pieces_of(*places)]
    return tuple(found)


def halved(some: Iterable[Tile]) -> Iterator[Tile]:
    """The same pairs in tiles that suit the kernel: a large triangle is two small ones and a square, again and again.

    Flash attention skips what a causal mask hides in strips of hundreds of keys: of a triangle of 512 queries the CPU's
    kernel computes the whole square. Long rectangles are cut too: the result of a tile lies beside that of all.
    """
    for tile in some:
        size = tile.rows.stop - tile.rows.start
        if size <= (SMALL if tile.causal else LARGE):
            yield tile
            continue
        (first, later), (begin, end) = _halves(tile.rows), _halves(tile.keys)
        if not tile.causal:
            yield from halved((tile._replace(rows=first), tile._replace(rows=later)))
            continue
        yield from halved((tile._replace(rows=later, keys=begin, causal=False),))
        yield from halved((tile._replace(rows=first, keys=begin), tile._replace(rows=later, keys=end)))


def _halves(some: slice) -> tuple[slice, slice]:
    middle = some.start + (some.stop - some.start) // 2
    return slice(some.start, middle), slice(middle, some.stop)


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
