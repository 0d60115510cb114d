"""The part of a GPT that one rank has: the layers of its pipeline stage, each cut over its tensor-parallel group."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.model.gpt import GPT
from shardlab.tensor_parallel.gpt import block_plan
from shardlab.tensor_parallel.plan import apply_plan


class StageOfGPT(nn.Module):
    """This rank's part of a GPT: some blocks, each cut over tp; the embedding in the first stage, the head in the last.

    Embedding, norm and head are whole on every tensor-parallel rank.
    """

    def __init__(self, whole: GPT, stage: int, num_stages: int, *, tp_group: dist.ProcessGroup | None) -> None:
        super().__init__()
        blocks = [copy.deepcopy(whole.blocks[layer]) for layer in layers_of(stage, num_stages, len(whole.blocks))]
        self.token = copy.deepcopy(whole.token) if stage == 0 else None
        self.position = copy.deepcopy(whole.position) if stage == 0 else None
        self.blocks = nn.ModuleList(blocks)
        plan = {f"*.{path}": split for path, split in block_plan(whole.config).items()}
        apply_plan(self.blocks, plan, group=tp_group)
        last = stage + 1 == num_stages
        self.norm = copy.deepcopy(whole.norm) if last else None
        self.head = copy.deepcopy(whole.head) if last else None

    def forward(self, x: Tensor) -> Tensor:
        """x: tokens_BS in the first stage, hidden_BSH in the others; logits_BSV come out of the last."""
        if self.token is not None:
            positions = torch.arange(x.shape[1], device=x.device)
            x = self.token(x) if self.position is None else self.token(x) + self.position(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.head is not None and self.norm is not None else x


def layers_of(stage: int, num_stages: int, num_layers: int) -> range:
    """The layers of a stage; the first stages have one more where they do not divide.

    Raises ValueError for more stages than layers.
    """
    if not 1 <= num_stages <= num_layers:
        raise ValueError(f"{num_layers} layers cannot fill {num_stages} stages: use 1 to {num_layers} stages")
    quotient, rest = divmod(num_layers, num_stages)
    begin = stage * quotient + min(stage, rest)
    return range(begin, begin + quotient + (stage < rest))
