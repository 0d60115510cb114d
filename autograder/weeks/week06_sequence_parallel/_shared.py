"""Shared by the checks of this week: what a layer keeps with each way of recomputing, and gradients that are too long.

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
    """Bytes that a layer keeps until its backward; a split sequence splits the input that full recomputing keeps."""
    sizes = [case[name] for name in ("s", "b", "h", "a", "t")]
    split = case["sequence_parallel"]
    kept = {way: gpt_layer_activation_bytes(*sizes, sequence_parallel=split, recompute=way) for way in WAYS}
    return kept | {"full": kept["full"] / (case["t"] if split else 1)}


def extra_flops(case: Case) -> dict[str, float]:
    """FLOPs of a rank that a layer's backward does again: the attention core's 4bs^2h, or all of the forward."""
    core = 4 * case["b"] * case["s"] ** 2 * case["h"] / case["t"]
    return {"none": 0.0, "selective": core, "full": 24 * case["b"] * case["s"] * case["h"] ** 2 / case["t"] + core}


def peak_bytes(case: Case, plan: Sequence[str]) -> float:
    """The most that a plan holds: in the backward of layer i all that this layer computes, and what those before keep.

    Layers behind it have gone through their backward and have freed theirs.
    """
    kept = kept_bytes(case)
    before, most = 0.0, 0.0
    for way in plan:
        most = max(most, before + kept["none"])
        before += kept[way]
    return most


def times_as_long(received: Any, expected: Tensor) -> float | None:
    """How many times `expected` a tensor is, or None where it points elsewhere."""
    if not isinstance(received, Tensor) or received.shape != expected.shape or not expected.any():
        return None
    mine, right = received.double(), expected.double()
    ratio = float((mine * right).sum() / (right * right).sum())
    return ratio if torch.allclose(mine, ratio * right, rtol=1e-2, atol=1e-6 * float(right.abs().max())) else None
