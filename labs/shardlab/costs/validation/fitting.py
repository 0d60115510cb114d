"""Fit the constants of the time model to published runs, limiting the influence of any single source or outlier.

Every family has the same weight, a row's error counts by its size instead of its square, and each constant is pulled
toward its guess, so that it stays there if the runs do not determine it. Residuals, from which prediction intervals are
computed, use constants fitted without the run's source.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np

from shardlab.costs.clock.setup import FITTED, Efficiency
from shardlab.costs.clock.step import step_seconds
from shardlab.costs.uncertainty import RESIDUALS, Residuals
from shardlab.costs.validation.published import Run

GUESSED = Efficiency()
NAMES = [field.name for field in fields(Efficiency)]
Predict = Callable[[Run], float]
SOFT = 0.03  # smaller errors count by their square: no source reports times more precisely
PULL = 0.5  # a constant off its guess by a factor of e costs as much as half a family that is off by e
SLOPE = 0.03
ROUNDS = 5


def predict(run: Run, efficiency: Efficiency = FITTED) -> float:
    """Seconds of a step; does not read reported results."""
    return step_seconds(run.model, run.layout, run.setup(efficiency)).total


def fit(runs: Sequence[Run], rounds: int = ROUNDS) -> Efficiency:
    """Constants with the smallest loss on these runs: Gauss-Newton on the logarithms, reweighted for absolute errors.

    Raises ValueError if there is no run with a step time.
    """
    if not runs or not all(run.step_seconds for run in runs):
        raise ValueError(f"{len(runs)} runs are not enough for a fit: give one or more, each with a step time")
    rows = Counter(run.family for run in runs)
    weights = np.array([1 / rows[run.family] for run in runs])
    measured = np.log([run.step_seconds or 0.0 for run in runs])

    def loss(errors: np.ndarray, moved: np.ndarray) -> float:
        return float(weights @ np.hypot(errors, SOFT) + PULL * moved @ moved)

    guess = _logs(GUESSED)
    constants, slopes = guess, np.array([_slopes_at_guess(run) for run in runs])
    errors = np.array([_log_seconds(run, GUESSED) for run in runs]) - measured
    for _ in range(rounds):
        curved = weights / np.hypot(errors, SOFT)
        pull = 2 * PULL * np.eye(len(NAMES))
        gradient = slopes.T @ (curved * errors) + pull @ (constants - guess)
        step = -np.linalg.solve(slopes.T * curved @ slopes + pull, gradient)
        before = loss(errors, constants - guess)
        for shorter in (1.0, 0.5, 0.25):
            tried = np.minimum(constants + shorter * step, 0.0)  # shares are at most 1
            missed = np.array([_log_seconds(run, _from_logs(tried)) for run in runs]) - measured
            if loss(missed, tried - guess) < before:
                break
        else:
            break
        constants, errors = tried, missed
        if before - loss(errors, constants - guess) < 1e-3:
            break
        slopes = np.array([_slopes(run, _from_logs(constants)) for run in runs])
    return _from_logs(constants)


def _logs(efficiency: Efficiency) -> np.ndarray:
    return np.log([getattr(efficiency, name) for name in NAMES])


def _from_logs(logs: np.ndarray) -> Efficiency:
    return Efficiency(**dict(zip(NAMES, np.exp(logs).tolist(), strict=True)))


def _log_seconds(run: Run, efficiency: Efficiency) -> float:
    return float(np.log(predict(run, efficiency)))


def _slopes(run: Run, efficiency: Efficiency) -> tuple[float, ...]:
    """d ln(seconds) / d ln(constant), for each constant."""
    here, at = _logs(efficiency), _log_seconds(run, efficiency)
    moved = (here + SLOPE * np.eye(len(NAMES))[k] for k in range(len(NAMES)))
    return tuple((_log_seconds(run, _from_logs(one)) - at) / SLOPE for one in moved)


@cache
def _slopes_at_guess(run: Run) -> tuple[float, ...]:
    """The slopes at the guess, where every fit starts, whichever family it leaves out."""
    return _slopes(run, GUESSED)


def residual(run: Run, predicted: Predict) -> float:
    """ln(measured / predicted) to four digits; positive if the prediction is too fast."""
    assert run.step_seconds
    return round(math.log(run.step_seconds / predicted(run)), 4)


def residuals_of(runs: Sequence[Run], predicted: Predict) -> Residuals:
    """The residuals of these runs, by source."""
    found: dict[str, list[float]] = {}
    for run in runs:
        found.setdefault(run.family, []).append(residual(run, predicted))
    return found


def write_residuals(runs: Sequence[Run], predicted: Predict, path: Path = RESIDUALS) -> None:
    """Write the file that `uncertainty.held_out_residuals` reads, {source: {run: residual}}, a source per line."""
    found: dict[str, dict[str, float]] = {}
    for run in runs:
        found.setdefault(run.family, {})[run.id] = residual(run, predicted)
    lines = (f"{json.dumps(source)}: {json.dumps(residuals)}" for source, residuals in found.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
