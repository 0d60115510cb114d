"""Dropout with an explicit random generator, which saves one byte per element for the backward."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Zeroes each element with probability p and scales the others by 1/(1-p) (Srivastava et al., JMLR 2014).

    generator: source of the random numbers; None uses torch's default. The mask is saved for the backward, as bool.
    Raises ValueError unless 0 <= p < 1.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"a dropout of {p} drops everything or is not a probability: use 0 to 0.9")
        self.p = p
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.p == 0 or not self.training:
            return x
        return x.masked_fill(self.dropped(x), 0.0) * (1 / (1 - self.p))

    def dropped(self, x: Tensor) -> Tensor:
        """The mask of x: True where an element becomes zero."""
        return torch.rand(x.shape, generator=self.generator, device=x.device) < self.p


def generators_of(module: nn.Module) -> list[torch.Generator]:
    """The generators that a module's dropout layers use, each once."""
    defaults = [torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ())]
    dropouts = [one for one in module.modules() if isinstance(one, Dropout) and one.p > 0]
    drawn_from = [one for drop in dropouts for one in (defaults if drop.generator is None else [drop.generator])]
    return list({id(generator): generator for generator in drawn_from}.values())
