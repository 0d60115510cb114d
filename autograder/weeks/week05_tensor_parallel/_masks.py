"""Detects masks of many steps, with p = 1/2, that were drawn from the same random numbers.

The same numbers may be reused at other positions: shifted, rolled, mirrored, transposed, permuted, or with "kept" and
"dropped" swapped. Each test below detects one of these. Independent masks fail with a probability below 1e-7: a sum of
n random signs exceeds z times the square root of n with a probability below 2 exp(-z z / 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement

import torch
from torch import Tensor

FEWEST_STEPS = 100
SIGMAS = 8.0
_LAGS, _SHIFTED_STEPS = 3, 4


def related(masks: dict[str, Tensor]) -> tuple[str, str] | None:
    """Find two places whose masks, (steps, rows, columns), depend on each other, or one place with dependent steps."""
    signs = {place: mask.float() * 2 - 1 for place, mask in masks.items()}
    size = 2 * max(num for one in signs.values() for num in one.shape[1:])
    spectra = {place: _spectra(one[: _SHIFTED_STEPS + _LAGS], size) for place, one in signs.items()}
    for (first, a), (second, b) in combinations_with_replacement(signs.items(), 2):
        lags = [(max(lag, 0), max(-lag, 0)) for lag in range(1 if first == second else -_LAGS, _LAGS + 1)]
        ones_a, ones_b = (_spectra(torch.ones_like(one[:1]), size) for one in (a, b))
        overlap = _sums(ones_a, ones_b, [(0, 0)]).clamp(min=1)
        moved = _sums(spectra[first], spectra[second], lags) / overlap.sqrt()
        same = any(_same_place(a[one : len(a) - other], b[other : len(b) - one]) for one, other in lags)
        if same or bool((moved.abs() > SIGMAS + 0.01).any()):
            return first, second
    return None


def _same_place(a: Tensor, b: Tensor) -> bool:
    """Whether some element of one mask equals some element of the other in (nearly) every step, or their totals agree.

    Totals agree where the same numbers are used in a different order in each step.
    """
    places = [torch.cat([one.flatten(1), one.sum((1, 2))[:, None] / one[0].numel() ** 0.5], 1) for one in (a, b)]
    return bool((places[0].T @ places[1]).abs().max() > SIGMAS * len(a) ** 0.5)


def _spectra(masks: Tensor, size: int) -> Tensor:
    """Fourier transforms of the masks unchanged, mirrored and transposed: (8, steps, size, size / 2 + 1)."""
    ways = [torch.stack([one.flip(sides) for sides in ((), (1,), (2,), (1, 2))]) for one in (masks, masks.mT)]
    return torch.cat([torch.fft.rfft2(one, s=(size, size)) for one in ways])


def _sums(a: Tensor, b: Tensor, lags: Sequence[tuple[int, int]]) -> Tensor:
    """For each step, the sum of products of the two masks at every shift, for each orientation of the second."""
    products = [a[0, one : one + _SHIFTED_STEPS] * b[:, other : other + _SHIFTED_STEPS] for one, other in lags]
    return torch.fft.irfft2(torch.stack(products))
