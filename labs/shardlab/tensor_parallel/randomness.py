"""Random numbers for dropout: the same on all ranks where they hold the same numbers, others where they hold parts.

Two streams instead of one: with one seed everywhere, the split regions of all ranks would drop the same places; with
one seed per rank, copies of one activation would differ (Megatron-LM, tensor_parallel/random.py).
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from shardlab.tensor_parallel.messages import Group

APART = 1_000_003  # between the seeds of two ranks: neighbouring seeds of neighbouring runs never meet


class RandomStreams:
    """`replicated` draws the same numbers on every rank of the group, `split` others on each.

    seed: the same on every rank; data-parallel replicas give different ones.
    """

    def __init__(self, seed: int, *, group: Group, device: torch.device | str = "cpu") -> None:
        self.replicated = torch.Generator(device).manual_seed(seed)
        self.split = torch.Generator(device).manual_seed(seed + APART * (1 + dist.get_rank(group)))

    def state(self) -> list[torch.Tensor]:
        """Where both streams are: what a checkpoint keeps, so that a run goes on with the same masks."""
        return [self.replicated.get_state(), self.split.get_state()]

    def set_state(self, state: list[torch.Tensor]) -> None:
        """Go back to where `state()` was asked for."""
        self.replicated.set_state(state[0])
        self.split.set_state(state[1])
