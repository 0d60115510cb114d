"""Which sequences a step sees: a function of seed and step only, so the mesh and resuming cannot change it.

The text is split into windows of S tokens; an epoch is a shuffle of them, drawn from seed and epoch. Position p of the
endless list of epochs is row p % batch of step p // batch. A checkpoint needs to store no position except its step.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from shardlab.mesh.axes import Mesh
from shardlab.model.text import read_text
from shardlab.train.recipe import Recipe

COURSE = Path(__file__).parents[3] / "docs"  # the course's own pages


class Text:
    """A text as sequences [S] and their labels. Raises ValueError if it is too short for one sequence."""

    def __init__(self, tokens: Tensor, sequence: int) -> None:
        self.tokens, self.sequence = tokens, sequence
        self.num_sequences = (len(tokens) - 1) // sequence
        if self.num_sequences < 1:
            raise ValueError(
                f"a text of {len(tokens)} tokens is too short for a sequence of {sequence}: use a shorter sequence"
            )

    @property
    def checksum(self) -> str:
        """The number of tokens and their checksum, to recognize a different text."""
        return f"{len(self.tokens)} tokens, crc32 {zlib.crc32(self.tokens.to(torch.uint8).numpy().tobytes()):08x}"

    def batch(self, numbers: list[int]) -> tuple[Tensor, Tensor]:
        """Tokens and labels [B, S] of the sequences with these numbers."""
        starts = torch.tensor(numbers).unsqueeze(1) * self.sequence
        rows = self.tokens[starts + torch.arange(self.sequence + 1)]
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def text_of(recipe: Recipe) -> Text:
    """The text of a recipe. Raises ValueError for a folder with too little text."""
    return Text(read_text(recipe.run.text or COURSE), recipe.model.sequence)


def sequence_numbers(seed: int, step: int, *, batch: int, num_sequences: int) -> list[int]:
    """The global numbers of the sequences in step number `step`, counted from 0, in row order."""
    places = range(step * batch, (step + 1) * batch)
    return [_shuffled(seed, place // num_sequences, num_sequences)[place % num_sequences] for place in places]


def rows_of_replica(batch: int, microbatches: int, mesh: Mesh, replica: int) -> list[int]:
    """Rows of the global batch that a replica takes: its share of each global microbatch.

    The j-th microbatches of all replicas together are then the same sequences on every mesh. MoE losses, which are
    computed per microbatch over all ranks, do not change with dp.
    """
    by_microbatch = torch.arange(batch).view(microbatches, mesh.dp, -1)
    return by_microbatch[:, replica].flatten().tolist()


@lru_cache(maxsize=2)
def _shuffled(seed: int, epoch: int, num_sequences: int) -> list[int]:
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {epoch}".encode()))
    return torch.randperm(num_sequences, generator=generator).tolist()
