"""What a step uses is a function of its number, so that a resumed run continues as if it had never stopped.

Sequences: the text is split into windows of S tokens; an epoch is a shuffle of them, drawn from seed and epoch.
Position p of the endless list of epochs is row p % batch of step p // batch, on any mesh. Dropout: every generator is
reseeded at each step from its initial seed and the step number. A checkpoint stores neither position nor generators.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from math import cos, pi
from pathlib import Path

import torch
from torch import Tensor

from shardlab.hybrid.mesh_trainer import MeshTrainer
from shardlab.mesh.axes import Mesh
from shardlab.model.dropout import generators_of
from shardlab.model.text import read_text
from shardlab.train.recipe import Recipe
from shardlab.train.sections import LearningRate

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


def lr_at(step: int, lr: LearningRate, steps: int) -> float:
    """The learning rate of step number `step`, counted from 0, in a run of `steps` steps.

    Warm-up: peak * (step + 1) / warmup. Then peak, or peak * (floor + (1 - floor) * (1 + cos(pi * t)) / 2), where t
    goes from 0 to 1 over the remaining steps (SGDR, arXiv 1608.03983, equation 5, with one period).
    """
    if step < lr.warmup:
        return lr.peak * (step + 1) / lr.warmup
    if lr.shape == "constant":
        return lr.peak
    done = min(1.0, (step - lr.warmup) / max(1, steps - lr.warmup))
    return lr.peak * (lr.floor + (1 - lr.floor) * (1 + cos(pi * done)) / 2)


class Dropouts:
    """The generators of a trainer's dropout layers on this rank."""

    def __init__(self, trainer: MeshTrainer) -> None:
        found = {id(one): one for part in trainer.parts.values() for one in generators_of(part)}
        self._begins: list[tuple[torch.Generator, int]] = [(one, one.initial_seed()) for one in found.values()]

    def begin(self, step: int) -> None:
        """Reseed for a step; ranks whose generators had the same initial seed draw the same masks in every step."""
        for generator, seed in self._begins:
            generator.manual_seed(zlib.crc32(f"{seed} {step}".encode()))
