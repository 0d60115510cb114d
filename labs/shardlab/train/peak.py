"""What the MFU (model FLOPs utilisation) is a share of: the products that this machine can do in a second."""

from __future__ import annotations

import os

from shardlab.costs.clock.calibration import read_calibration
from shardlab.costs.models.flops import model_flops_per_token, utilisation
from shardlab.costs.models.model import Transformer
from shardlab.train.recipe import Recipe


def peak_flops(recipe: Recipe, ranks: int) -> tuple[float, str]:
    """FLOP/s of all ranks together, and where the number comes from; 0.0 and why not where nobody knows.

    Measured: the fastest square product in the recipe's dtype on one core, times the cores that the ranks share.
    """
    if recipe.log.peak_flops:
        return recipe.log.peak_flops * ranks, "stated in log.peak_flops"
    try:
        here = read_calibration(None)
    except ValueError:
        return 0.0, "unknown: run `shardlab calibrate`, or state log.peak_flops"
    rates = here.matmul.get(recipe.step.dtype)
    if not rates:
        return 0.0, f"unknown: `shardlab calibrate` has measured {', '.join(here.matmul)} here, not {recipe.step.dtype}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(rates.values()) * min(ranks, cores), "the fastest product that `shardlab calibrate` has measured here"


def mfu(model: Transformer, tokens: int, seconds: float, peak: float) -> float | None:
    """Share of the peak that the model's own FLOPs take; None without a peak."""
    return utilisation(model_flops_per_token(model), tokens, seconds, 1, peak) if peak else None
