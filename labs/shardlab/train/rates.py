"""The learning rate as a function of the step, so that a resumed run continues with the same one."""

from __future__ import annotations

from math import cos, pi

from shardlab.train.sections import LearningRate


def lr_at(step: int, lr: LearningRate, steps: int) -> float:
    """The learning rate of step number `step`, counted from 0, in a run of `steps` steps.

    Warm-up: peak * (step + 1) / warmup. Then peak, or peak * (floor + (1 - floor) * (1 + cos(pi * t)) / 2), where t
    goes from 0 to 1 over the remaining steps (SGDR, arXiv 1608.03983, equation 5, with one period).
    """
    if step < lr.warmup:
        return lr.peak * (step + 1) / lr.warmup
    if lr.shape == "constant":
        return lr.peak
    done = min(1.0, (step - lr.warmup) / max(1, steps - lr.warmup))
    return lr.peak * (lr.floor + (1 - lr.floor) * (1 + cos(pi * done)) / 2)
