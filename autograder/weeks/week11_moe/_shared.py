"""Shared by week 11: masked modules, tokens whose choices rounding cannot change, and tensors compared by name.

Shapes: T tokens, H hidden, E experts, K choices per token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor

from autograder.checks.base import Reply, Task, wrong_value

MASKED = ("shardlab.model", "shardlab.expert_parallel", "shardlab.hybrid", "shardlab.collectives")
TOLERANCE = 1e-5  # relative to the largest number, in float32: sums may be in another order
GAP = 1e-3  # of scores, between the last chosen expert and the first one not chosen


def drawn(rng: Random, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draws normal numbers, rounded to `dtype`."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    return torch.randn(*shape, generator=generator).to(dtype)


def clear_cut(rows: Tensor, k: int, preferred: Callable[[Tensor], Tensor], num_rows: int) -> Tensor:
    """The first `num_rows` rows whose k best experts are clear, so that rounding does not change their choices.

    preferred: the values by which experts are chosen, [rows, E]. Raises ValueError if too few rows are left.
    """
    ranked = preferred(rows).sort(-1, descending=True).values
    clear = rows if k == ranked.shape[-1] else rows[ranked[:, k - 1] - ranked[:, k] > GAP]
    if len(clear) < num_rows:
        raise ValueError(f"{len(clear)} of {len(rows)} rows are clear: draw more for {num_rows}")
    return clear[:num_rows].clone()


def value_on(reply: Reply, rank: int) -> Any:
    """The value that a rank returned, or None if it could not be sent."""
    value = reply.ranks[rank].get("value")
    return value.get("plain") if isinstance(value, dict) else None


def wrong_tensors(
    rank: int,
    received: Any,
    expected: Mapping[str, Tensor],
    why: Mapping[str, str],
    *,
    relative: float = TOLERANCE,
    rooms: Mapping[str, float] | None = None,
) -> str | None:
    """Compares a tuple of tensors with {name: tensor}, in order; integers must be equal.

    `why` has the question to ask if the tensor with that name is wrong; `rooms` has other tolerances by name.
    """
    if not isinstance(received, list | tuple) or len(received) != len(expected):
        return f"Return {len(expected)} tensors: {', '.join(expected)}."
    for one, (name, wanted) in zip(received, expected.items(), strict=True):
        room = (rooms or {}).get(name, relative) if wanted.dtype.is_floating_point and wanted.numel() else 0.0
        if problem := wrong_value(rank, one, wanted, name, relative=room):
            return f"{problem} {why.get(name, '')}{_multiple(one, wanted)}".strip()
    return None


def _multiple(received: Any, wanted: Tensor) -> str:
    """The sentence for a tensor that is a multiple of the right one."""
    if not isinstance(received, Tensor) or received.shape != wanted.shape or not wanted.any():
        return ""
    a, b = received.double(), wanted.double()
    ratio = float((a * b).sum() / (b * b).sum())
    if not abs(ratio - 1) > 1e-3 or not (a - ratio * b).abs().max() <= 1e-4 * a.abs().max():
        return ""
    return f" The whole tensor is {ratio:.4g} times the expected one."


def one_rank(call: str, args: Sequence[Any], expected: Any, *, keeps_inputs: bool = True, **facts: Any) -> Task:
    """A task with one rank and no messages."""
    mine = {"args": list(args), "groups": {}, "reports": [], "calls": 1}
    return Task(call, 1, [mine], [expected], groups=[], facts=facts, keeps_inputs=keeps_inputs, reads_calls=False)
