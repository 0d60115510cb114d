"""Random numbers for dropout: equal on all ranks for replicated activations, different for split ones.

This takes two streams. With one seed everywhere, all ranks would drop the same places in their split regions. With one
seed per rank, copies of the same activation would differ (Megatron-LM, tensor_parallel/random.py).
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from shardlab.tensor_parallel.messages import Group

APART = 1_000_003  # distance between two ranks' seeds, so that runs with consecutive seeds do not overlap


class RandomStreams:
    """`replicated` draws the same numbers on every rank of the group; `split` draws different numbers on each.

    seed: the same on every rank of the group, but different for each data-parallel replica.
    """

    def __init__(self, seed: int, *, group: Group, device: torch.device | str = "cpu") -> None:
        self.replicated = torch.Generator(device).manual_seed(seed)
        self.split = torch.Generator(device).manual_seed(seed + APART * (1 + dist.get_rank(group)))

    def state(self) -> list[torch.Tensor]:
        """The state of both streams. Save it in a checkpoint, so that a resumed run continues with the same masks."""
        return [self.replicated.get_state(), self.split.get_state()]

    def set_state(self, state: list[torch.Tensor]) -> None:
        """Restore what `state()` returned."""
        self.replicated.set_state(state[0])
        self.split.set_state(state[1])
