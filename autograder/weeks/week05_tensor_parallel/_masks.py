"""Whether masks of many steps, each number kept or dropped with equal chance, were drawn from the same random numbers.

The same numbers may be used at other places: shifted, rolled, mirrored, transposed, permuted, or with "kept" and
"dropped" exchanged. Each test below holds for one kind of this. Independent masks pass all of them but for a chance
below 1e-7: a sum of n random signs exceeds z times the square root of n with a probability below 2 exp(-z z / 2).
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import torch
from torch import Tensor
from torch.nn.functional import conv2d

FEWEST_STEPS = 100
SIGMAS = 8.0
_LAGS, _SHIFTED_STEPS = 3, 4


def related(masks: dict[str, Tensor]) -> tuple[str, str] | None:
    """The first two places whose masks, (steps, rows, columns), depend on each other; in one place, of two steps."""
    signs = {place: mask.double() * 2 - 1 for place, mask in masks.items()}
    for (first, a), (second, b) in combinations_with_replacement(signs.items(), 2):
        for lag in range(-_LAGS, _LAGS + 1):
            if first == second and lag <= 0:
                continue
            one, other = (a[lag:], b[: len(b) - lag]) if lag >= 0 else (a[: len(a) + lag], b[-lag:])
            if _same_place(one, other) or _same_number(one, other) or _moved(one, other):
                return first, second
    return None


def _same_place(a: Tensor, b: Tensor) -> bool:
    """Whether some place of one follows some place of the other in (nearly) every step."""
    together = a.flatten(1).T @ b.flatten(1)
    return bool(together.abs().max() > SIGMAS * len(a) ** 0.5)


def _same_number(a: Tensor, b: Tensor) -> bool:
    """Whether they drop more, or fewer, in the same steps: as the same numbers in another order do."""
    totals = a.sum((1, 2)) / a[0].numel() ** 0.5, b.sum((1, 2)) / b[0].numel() ** 0.5
    return bool((totals[0] @ totals[1]).abs() > SIGMAS * len(a) ** 0.5)


def _moved(a: Tensor, b: Tensor) -> bool:
    """Whether, in a step, one is the other moved by any number of rows and columns, mirrored or transposed or not."""
    return any(_shifted(one, pattern) for one, other in zip(a[:_SHIFTED_STEPS], b, strict=False) for pattern in _turned(other))


def _turned(mask: Tensor) -> list[Tensor]:
    return [turned.flip(sides) for turned in (mask, mask.T) for sides in ((), (0,), (1,), (0, 1))]


def _shifted(mask: Tensor, pattern: Tensor) -> bool:
    def at_every_shift(one: Tensor, other: Tensor) -> Tensor:
        room = [size - 1 for size in other.shape]
        return conv2d(one[None, None], other[None, None], padding=room)  # type: ignore[arg-type]

    overlap = at_every_shift(torch.ones_like(mask), torch.ones_like(pattern))
    return bool((at_every_shift(mask, pattern).abs() > SIGMAS * overlap.sqrt()).any())
