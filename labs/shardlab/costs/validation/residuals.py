"""The residuals behind prediction intervals: every run is predicted with constants fitted without its source."""

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from shardlab.costs.uncertainty import COLUMNS, RESIDUALS, Residuals
from shardlab.costs.validation.published import Run

Predict = Callable[[Run], float]


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
    """Write the file that `uncertainty.held_out_residuals` reads."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((run.family, run.id, residual(run, predicted)) for run in runs)
