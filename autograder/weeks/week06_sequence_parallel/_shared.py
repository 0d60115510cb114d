"""Shared by this week's checks: bytes kept with each kind of recomputation, and gradients that are too large.

Symbols (arXiv 2205.05198): s sequence, b microbatch, h hidden, a heads, t tensor-parallel size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from shardlab.costs.memory.stage import gpt_layer_activation_bytes
from torch import Tensor

from autograder.checks.base import Case

MASKED = ("shardlab.tensor_parallel", "shardlab.hybrid", "shardlab.collectives", "shardlab.model")
WAYS = ("none", "selective", "full")


def kept_bytes(case: Case) -> dict[str, float]:
    """Bytes that a layer keeps until its backward. Splitting the sequence also splits the input kept by "full"."""
    sizes = [case[name] for name in ("s", "b", "h", "a", "t")]
    split = case["sequence_parallel"]
    kept = {way: gpt_layer_activation_bytes(*sizes, sequence_parallel=split, recompute=way) for way in WAYS}
    return kept | {"full": kept["full"] / (case["t"] if split else 1)}


def extra_flops(case: Case) -> dict[str, float]:
    """FLOPs per rank that a layer's backward recomputes: the attention core's 4bs^2h, or the whole forward."""
    core = 4 * case["b"] * case["s"] ** 2 * case["h"] / case["t"]
    return {"none": 0.0, "selective": core, "full": 24 * case["b"] * case["s"] * case["h"] ** 2 / case["t"] + core}


def peak_bytes(case: Case, plan: Sequence[str]) -> float:
    """The most bytes that a plan holds: in the backward of layer i, all that it computes, and what earlier layers keep.

    Later layers have finished their backward and freed their activations.
    """
    kept = kept_bytes(case)
    before, most = 0.0, 0.0
    for way in plan:
        most = max(most, before + kept["none"])
        before += kept[way]
    return most


def times_as_long(received: Any, expected: Tensor) -> float | None:
    """The factor by which a tensor exceeds `expected`, or None if it is not a multiple."""
    if not isinstance(received, Tensor) or received.shape != expected.shape or not expected.any():
        return None
    mine, right = received.double(), expected.double()
    ratio = float((mine * right).sum() / (right * right).sum())
    return ratio if torch.allclose(mine, ratio * right, rtol=1e-2, atol=1e-6 * float(right.abs().max())) else None
