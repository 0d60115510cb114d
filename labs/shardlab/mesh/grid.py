"""A grid of ranks: a rank is a number whose digits are its coordinates. Needs no processes and no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from shardlab.meant import instead


@dataclass(frozen=True)
class Grid:
    """Ranks 0 to N-1 on named axes; the first axis changes fastest, like the last digit of a number.

    axes: (name, size) from innermost to outermost. rank = sum of coordinate * stride, where the stride of an axis is
    the product of the sizes before it (as in Megatron-Core's parallel_state.py, RankGenerator).
    Raises ValueError for an axis named twice or a size below 1.
    """

    axes: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes]
        if len(set(names)) < len(names):
            raise ValueError(f"an axis is named twice in {', '.join(names)}: name each once")
        for name, size in self.axes:
            if type(size) is not int or size < 1:
                raise ValueError(f"{name} = {size!r} is not a size of an axis: use a whole number of 1 or more")

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Size by axis, innermost first."""
        return dict(self.axes)

    @cached_property
    def world(self) -> int:
        """The number of ranks: the product of all sizes."""
        return prod(self.sizes.values())

    @cached_property
    def strides(self) -> dict[str, int]:
        """The distance between two neighbors on each axis, in ranks."""
        strides, so_far = {}, 1
        for name, size in self.axes:
            strides[name] = so_far
            so_far *= size
        return strides

    def coordinates(self, rank: int) -> dict[str, int]:
        """The coordinates of a rank; raises ValueError for a rank outside the grid."""
        self._check_rank(rank)
        return {name: rank // stride % self.sizes[name] for name, stride in self.strides.items()}

    def rank_at(self, coordinates: Mapping[str, int]) -> int:
        """The rank at these coordinates (0 on omitted axes); raises ValueError for coordinates outside the grid."""
        self._check_axes(tuple(coordinates))
        for name, place in coordinates.items():
            if not 0 <= place < self.sizes[name]:
                raise ValueError(f"{name} = {place} is outside the grid: use 0 to {self.sizes[name] - 1}")
        return sum(place * self.strides[name] for name, place in coordinates.items())

    def group_of(self, rank: int, *axes: str) -> list[int]:
        """The ranks that differ from `rank` only on these axes, in ascending order and including `rank`."""
        self._check_axes(axes)
        here, strides = self.coordinates(rank), self.strides
        corner = rank - sum(here[name] * strides[name] for name in axes)
        steps = [[place * strides[name] for place in range(self.sizes[name])] for name in axes]
        return sorted(corner + sum(step) for step in product(*steps))

    def groups(self, *axes: str) -> list[list[int]]:
        """All groups of these axes, ordered by their first ranks. Together they contain every rank once."""
        self._check_axes(axes)
        found = (self.group_of(rank, *axes) for rank in range(self.world) if self._is_corner(rank, axes))
        return list(found)

    def _is_corner(self, rank: int, axes: tuple[str, ...]) -> bool:
        here = self.coordinates(rank)
        return all(here[name] == 0 for name in axes)

    def _check_rank(self, rank: int) -> None:
        if type(rank) is not int or not 0 <= rank < self.world:
            fits = f"0 to {self.world - 1}" if self.world > 1 else "0"
            raise ValueError(f"there is no rank {rank!r} among {self.world}: use {fits}")

    def _check_axes(self, axes: tuple[str, ...]) -> None:
        for name in axes:
            if name not in self.sizes:
                raise ValueError(f"there is no axis {name!r}: {instead(name, self.sizes)}")
        if len(set(axes)) < len(axes):
            raise ValueError(f"an axis is named twice in {', '.join(axes)}: name each once")
