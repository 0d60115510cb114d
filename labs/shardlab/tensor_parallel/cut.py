"""How a tensor is split over the ranks of a group, as a value: each rank's part, and the whole from all parts.

This is pure arithmetic and sends nothing. Layers use it to split, and checkpoints to join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from shardlab.costs.models.model import divisors


@dataclass(frozen=True)
class Cut:
    """A split along `dim` over t ranks, applied to each section separately.

    sections: sizes of the sections along dim, such as queries, keys and values.
    units: for each section, the number of indivisible units, such as heads; () if every row can be separated. If t is a
    multiple of a section's units, each unit is on t/units neighboring ranks.
    padded: zeros are added at the end of a section until t divides it.
    """

    sections: tuple[int, ...]
    dim: int = 0
    units: tuple[int, ...] = ()
    padded: bool = False

    def part(self, whole: Tensor, rank: int, size: int) -> Tensor:
        """Rank `rank`'s part of a whole tensor, as a copy, because a view would keep the whole tensor alive."""
        shards = []
        for number, section in enumerate(whole.split(self.sections, self.dim)):
            length, copies = self.shard(number, size)
            missing = size * length // copies - self.sections[number]
            if missing:
                behind = whole.dim() - 1 - self.dim % whole.dim()  # `pad` begins with the last dimension
                section = functional.pad(section, (0, 0) * behind + (0, missing))  # noqa: PLW2901
            shards.append(section.narrow(self.dim, rank // copies * length, length))
        return torch.cat(shards, self.dim).contiguous() if len(shards) > 1 else shards[0].clone()

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The whole tensor from all ranks' parts, without padding and with every unit once."""
        shards = [self.shard(number, len(parts)) for number in range(len(self.sections))]
        by_rank = [part.split([length for length, _ in shards], self.dim) for part in parts]
        sections = []
        for number, (_, copies) in enumerate(shards):
            section = torch.cat([one[number] for one in by_rank[::copies]], self.dim)
            sections.append(section.narrow(self.dim, 0, self.sections[number]))
        return torch.cat(sections, self.dim)

    def shard(self, number: int, size: int) -> tuple[int, int]:
        """The size of a rank's shard of section `number` over `size` ranks, and how many ranks have the same shard.

        Raises ValueError, listing valid numbers of ranks, if the ranks do not divide the section.
        """
        section = self.sections[number]
        if self.padded:
            return -(-section // size), 1
        units = self.units[number] if self.units else section
        if units % size == 0:
            return section // size, 1
        if self.units and size % units == 0:
            return section // units, size // units
        raise ValueError(
            f"{units} cannot be split over {size} ranks: use a tensor-parallel size among {divisors(units)}"
        )
