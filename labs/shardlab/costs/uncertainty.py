"""How far a measured step may lie from the predicted one: an interval from the errors on published runs.

The residual of a run, ln(measured / predicted), comes from constants that were fitted without its source, so that it
is what a run of a new source would have. The interval is one factor up and down, by conformal prediction with pooled
distributions: every source weighs the same (arXiv 1809.07441, CDF pooling: right for many sources, not guaranteed for
14). `make validate` says how many runs it covers when it is made from the other sources alone.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import mean

DATA = Path(__file__).parent / "data"
RESIDUALS, TRAINED_HERE = DATA / "held_out_residuals.csv", DATA / "trained_here_residuals.csv"
COLUMNS = ("source", "id", "log_ratio")
COVERAGE = 0.9  # of the interval that is printed beside a prediction
Residuals = Mapping[str, Sequence[float]]  # of each source, ln(measured / predicted) of its runs


def held_out_residuals() -> Residuals:
    """The residuals of the published runs, by source; `python -m shardlab.costs.validation --residuals` writes them."""
    return _read(RESIDUALS)


def trained_here_residuals() -> Residuals:
    """The residuals of plans for a CPU that was calibrated, by model: `python -m benchmarks planned-trainings`."""
    return _read(TRAINED_HERE)


@cache
def _read(path: Path) -> Residuals:
    found: dict[str, list[float]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["source"], []).append(float(row["log_ratio"]))
    return found


def error_factor(residuals: Residuals, coverage: float = COVERAGE) -> float:
    """The least factor, up or down, within which that share of the runs lies, as the mean over sources.

    Raises ValueError for a share that is not between 0 and 1, and where there are no residuals.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"a coverage of {coverage} is not a share: use a number between 0 and 1, such as {COVERAGE}")
    if not residuals or not all(residuals.values()):
        raise ValueError(f"{len(residuals)} sources, or one without runs: give one or more, each with a residual")
    weighed = sorted((abs(one), 1 / len(runs)) for runs in residuals.values() for one in runs)
    covered = 0.0
    for size, weight in weighed:
        covered += weight / len(residuals)
        if covered >= coverage:
            return math.exp(size)
    return math.exp(weighed[-1][0])  # the sum of the weights is 1 but for rounding


def step_interval(seconds: float, coverage: float = COVERAGE, *, here: bool = False) -> tuple[float, float]:
    """Seconds between which the measured step lies in that share of cases, around a predicted step.

    here: the step was predicted for the calibrated CPU at hand, not for GPUs as the published runs had.
    Raises ValueError for a time that is not positive, and for a share that is not between 0 and 1.
    """
    if not 0 < seconds < math.inf:
        raise ValueError(f"{seconds} s is not the time of a step: give a positive number of seconds")
    factor = error_factor(trained_here_residuals() if here else held_out_residuals(), coverage)
    return seconds / factor, seconds * factor


def held_out_coverage(residuals: Residuals, coverage: float = COVERAGE) -> dict[str, list[bool]]:
    """Whether each run lies in its interval, by source: the interval is made from the other sources alone."""
    inside = {}
    for source, runs in residuals.items():
        factor = error_factor({other: them for other, them in residuals.items() if other != source}, coverage)
        inside[source] = [abs(one) <= math.log(factor) for one in runs]
    return inside


def covered_share(inside: Mapping[str, Sequence[bool]]) -> float:
    """The share of runs that are covered, whatever their source."""
    return mean(one for runs in inside.values() for one in runs)
