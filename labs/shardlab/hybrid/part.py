"""One pipeline stage's part of a model. Its parameters keep the names that they have in the whole model."""

from __future__ import annotations

import copy
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from shardlab.model.gpt import GPTConfig


class Whole(Protocol):
    """A model with accessible parts: a `GPT`, a `MoEGPT`, or a `LayerByLayer`, which builds each part on demand."""

    config: GPTConfig
    token: Any
    position: Any
    blocks: Any
    norm: Any
    head: Any


class PartOfModel(nn.Module):
    """Some blocks, plus the embedding in the first stage, and the norm and the head in the last.

    Blocks keep their index in the whole model: `blocks.7.up.weight` has this name on every mesh, whatever its index on
    a rank. positions: of this rank's tokens, set before each step.
    """

    def __init__(self, whole: Whole, stage: int, num_stages: int) -> None:
        super().__init__()
        self.config = whole.config
        is_first, is_last = stage == 0, stage + 1 == num_stages
        self.token, self.position = copied(whole.token if is_first else None, whole.position if is_first else None)
        self.dropout = copied(whole.dropout)[0] if is_first else None  # type: ignore[attr-defined]
        layers = layers_of(stage, num_stages, whole.config.layers)
        self.blocks = nn.ModuleDict({str(layer): copied(whole.blocks[layer])[0] for layer in layers})
        self.norm = copied(whole.norm)[0] if is_last else None
        self.head = copied(whole.head)[0] if is_last else None
        if is_first and is_last and whole.config.tied:
            self.head.weight = self.token.weight  # type: ignore[union-attr]
        self.positions: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """x: tokens_BS in the first stage, hidden_BSH in the others. The last stage returns logits_BSV."""
        positions = torch.arange(x.shape[1], device=x.device) if self.positions is None else self.positions
        if self.token is not None and self.dropout is not None:
            x = self.token(x)
            x = self.dropout(x if self.position is None else x + self.position(positions))
        for block in self.blocks.values():
            x = block(x, positions) if self.config.rope else block(x)
        return self.head(self.norm(x)) if self.head is not None and self.norm is not None else x


def layers_of(stage: int, num_stages: int, num_layers: int) -> range:
    """The layers of a stage. If they do not divide evenly, the first stages get one more.

    Raises ValueError if there are more stages than layers.
    """
    if not 1 <= num_stages <= num_layers:
        raise ValueError(f"{num_layers} layers cannot fill {num_stages} stages: use 1 to {num_layers} stages")
    quotient, rest = divmod(num_layers, num_stages)
    begin = stage * quotient + min(stage, rest)
    return range(begin, begin + quotient + (stage < rest))


def copied(*modules: nn.Module | None) -> list[Any]:
    """Deep copies, so that the whole model stays unchanged and can be freed."""
    return [copy.deepcopy(one) for one in modules]


class Share(nn.Module):
    """A module that exposes only some of another module's parameters, for one kind of data parallelism.

    Calling it calls the whole wrapped module.
    """

    def __init__(self, module: nn.Module, parameters: dict[str, nn.Parameter]) -> None:
        super().__init__()
        self.module, self._chosen = module, parameters

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Any:
        return iter(self._chosen.items() if recurse else ())
