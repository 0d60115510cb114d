"""Whether masks of many steps, each number kept or dropped with equal chance, were drawn from the same random numbers.

The same numbers may be used at other places: shifted, rolled, mirrored, transposed, permuted, or with "kept" and
"dropped" exchanged. Each test below holds for one kind of this. Independent masks pass all of them but for a chance
below 1e-7: a sum of n random signs exceeds z times the square root of n with a probability below 2 exp(-z z / 2).
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import torch
from torch import Tensor

FEWEST_STEPS = 100
SIGMAS = 8.0
_LAGS, _SHIFTED_STEPS = 3, 4


def related(masks: dict[str, Tensor]) -> tuple[str, str] | None:
    """The first two places whose masks, (steps, rows, columns), depend on each other; in one place, of two steps."""
    signs = {place: mask.float() * 2 - 1 for place, mask in masks.items()}
    num_places = 2 * max(size for one in signs.values() for size in one.shape[1:])
    spectra = {place: _spectra(one[: _SHIFTED_STEPS + _LAGS], num_places) for place, one in signs.items()}
    for (first, a), (second, b) in combinations_with_replacement(signs.items(), 2):
        overlap = _sums(*(_spectra(torch.ones_like(one[:1]), num_places) for one in (a, b))).clamp(min=1)
        for lag in range(1 if first == second else -_LAGS, _LAGS + 1):
            one, other = max(lag, 0), max(-lag, 0)
            moved = _sums(_some(spectra[first], one), _some(spectra[second], other)) / overlap.sqrt()
            same = _same_place(a[one : len(a) - other], b[other : len(b) - one])
            if same or bool((moved.abs() > SIGMAS + 0.01).any()):
                return first, second
    return None


def _same_place(a: Tensor, b: Tensor) -> bool:
    """Whether some place of one follows some place of the other in (nearly) every step, or one total the other's.

    Totals do where the same numbers are used in another order in each step.
    """
    places = [torch.cat([one.flatten(1), one.sum((1, 2))[:, None] / one[0].numel() ** 0.5], 1) for one in (a, b)]
    return bool((places[0].T @ places[1]).abs().max() > SIGMAS * len(a) ** 0.5)


def _spectra(masks: Tensor, size: int) -> list[Tensor]:
    """Of some steps' masks, as they are, mirrored and transposed: their Fourier transforms, (steps, size, ...)."""
    turned = [one.flip(sides) for one in (masks, masks.mT) for sides in ((), (1,), (2,), (1, 2))]
    return [torch.fft.rfft2(one, s=(size, size)) for one in turned]


def _some(spectra: list[Tensor], begin: int) -> list[Tensor]:
    return [one[begin : begin + _SHIFTED_STEPS] for one in spectra]


def _sums(a: list[Tensor], b: list[Tensor]) -> Tensor:
    """Step by step the sum of products of one mask and the other at every shift, for each way to turn the other."""
    return torch.stack([torch.fft.irfft2(a[0] * turned) for turned in b])
