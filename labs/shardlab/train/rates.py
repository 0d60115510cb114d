"""The learning rate as a function of the step, so that a resumed run continues with the same rate."""

from __future__ import annotations

from math import cos, pi

from shardlab.train.sections import Rate


def rate_at(step: int, rate: Rate, steps: int) -> float:
    """The learning rate of step number `step`, counted from 0, in a run of `steps` steps.

    Warm-up: peak * (step + 1) / warmup. Then peak, or peak * (floor + (1 - floor) * (1 + cos(pi * t)) / 2), where t
    goes from 0 to 1 over the remaining steps (SGDR, arXiv 1608.03983, equation 5, with one period).
    """
    if step < rate.warmup:
        return rate.peak * (step + 1) / rate.warmup
    if rate.shape == "constant":
        return rate.peak
    done = min(1.0, (step - rate.warmup) / max(1, steps - rate.warmup))
    return rate.peak * (rate.floor + (1 - rate.floor) * (1 + cos(pi * done)) / 2)
