"""An interval for the measured step around a predicted one, from the errors on published runs.

The residual of a run, ln(measured / predicted), uses constants fitted without the run's source, so that it is what a
run from a new source would have. The interval is one factor up and down, by conformal prediction with pooled
distributions: every source has the same weight (arXiv 1809.07441, CDF pooling: right for many sources, not guaranteed
for 14). `make validate` reports how many runs it covers when it is computed only from the other sources.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import mean

DATA = Path(__file__).parent / "data"
RESIDUALS, TRAINED_HERE = DATA / "held_out_residuals.json", DATA / "trained_here_residuals.json"
COVERAGE = 0.9  # of the interval printed with a prediction
Residuals = Mapping[str, Sequence[float]]  # by source: ln(measured / predicted) of its runs


def held_out_residuals() -> Residuals:
    """The residuals of the published runs by source, written by `python -m shardlab.costs.validation --residuals`."""
    return _read(RESIDUALS)


def trained_here_residuals() -> Residuals:
    """Residuals of plans for a calibrated CPU, by model: `python -m benchmarks planned-trainings`."""
    return _read(TRAINED_HERE)


@cache
def _read(path: Path) -> Residuals:
    return {source: list(runs.values()) for source, runs in json.loads(path.read_text(encoding="utf-8")).items()}


def error_factor(residuals: Residuals, coverage: float = COVERAGE) -> float:
    """The smallest factor, up or down, that covers this share of the runs, averaged over sources.

    Raises ValueError if the share is not between 0 and 1, or if there are no residuals.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"a coverage of {coverage} is not a share: use a number between 0 and 1, such as {COVERAGE}")
    if not residuals or not all(residuals.values()):
        raise ValueError(f"{len(residuals)} sources, or a source without runs: give one or more, each with a residual")
    weighed = sorted((abs(one), 1 / len(runs)) for runs in residuals.values() for one in runs)
    covered = 0.0
    for size, weight in weighed:
        covered += weight / len(residuals)
        if covered >= coverage:
            return math.exp(size)
    return math.exp(weighed[-1][0])  # the weights sum to 1 up to rounding


def step_interval(seconds: float, coverage: float = COVERAGE, *, here: bool = False) -> tuple[float, float]:
    """The range that contains the measured step in this share of cases, given a predicted step.

    here: the prediction is for this calibrated CPU instead of GPUs as in the published runs.
    Raises ValueError if the time is not positive or the share is not between 0 and 1.
    """
    if not 0 < seconds < math.inf:
        raise ValueError(f"{seconds} s is not a step time: give a positive number of seconds")
    factor = error_factor(trained_here_residuals() if here else held_out_residuals(), coverage)
    return seconds / factor, seconds * factor


def held_out_coverage(residuals: Residuals, coverage: float = COVERAGE) -> dict[str, list[bool]]:
    """Whether each run is inside its interval, by source. The interval uses only the other sources."""
    inside = {}
    for source, runs in residuals.items():
        factor = error_factor({other: them for other, them in residuals.items() if other != source}, coverage)
        inside[source] = [abs(one) <= math.log(factor) for one in runs]
    return inside


def covered_share(inside: Mapping[str, Sequence[bool]]) -> float:
    """The share of covered runs, over all sources."""
    return mean(one for runs in inside.values() for one in runs)
