"""Dropout that resumes exactly: every generator is reseeded at each step from its initial seed and the step number.

Checkpoints need not store generator states: on the same mesh, a resumed run draws the same masks.
"""

from __future__ import annotations

import zlib

import torch

from shardlab.hybrid.mesh_trainer import MeshTrainer
from shardlab.model.dropout import generators_of


class Dropouts:
    """The generators of a trainer's dropout layers on this rank."""

    def __init__(self, trainer: MeshTrainer) -> None:
        found = {id(one): one for part in trainer.parts.values() for one in generators_of(part)}
        self._begins: list[tuple[torch.Generator, int]] = [(one, one.initial_seed()) for one in found.values()]

    def begin(self, step: int) -> None:
        """Reseed for a step; ranks whose generators had the same initial seed draw the same masks in every step."""
        for generator, seed in self._begins:
            generator.manual_seed(zlib.crc32(f"{seed} {step}".encode()))
