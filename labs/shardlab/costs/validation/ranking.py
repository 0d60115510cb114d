"""Whether predictions choose well: is the layout predicted to be fastest, among those measured, really fast?"""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from shardlab.costs.layout import Layout
from shardlab.costs.validation.published import Run

DRAWS = 10_000


def same_choice(runs: Sequence[Run], at_least: int = 3) -> list[list[Run]]:
    """Groups of 3 or more runs that differ only in layout: same family, model, batch, GPU and number of GPUs.

    A layout that was run several times appears once, with its mean time.
    """
    groups: dict[object, dict[Layout, list[Run]]] = {}
    for run in runs:
        key = (run.family, run.model, run.gpu, run.fp8, run.layout.world, run.layout.sequences_per_step)
        groups.setdefault(key, {}).setdefault(run.layout, []).append(run)
    return [[_mean(same) for same in group.values()] for group in groups.values() if len(group) >= at_least]


def _mean(runs: Sequence[Run]) -> Run:
    return replace(runs[0], step_seconds=statistics.mean(run.step_seconds or 0.0 for run in runs))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rho; ties get their mean rank; 0 if all of one are equal. Raises ValueError for fewer than 2."""
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(f"{len(first)} and {len(second)} numbers have no rank correlation: give 2 or more of each")
    a, b = _ranks(first), _ranks(second)
    if len(set(a)) == 1 or len(set(b)) == 1:
        return 0.0
    return statistics.correlation(a, b)


def regret(measured: Sequence[float], predicted: Sequence[float]) -> float:
    """How much slower than the fastest run is the one predicted to be fastest; 0 is the right choice."""
    chosen = min(range(len(predicted)), key=predicted.__getitem__)
    return measured[chosen] / min(measured) - 1


def choices(runs: Sequence[Run], predict: Callable[[Run], float]) -> tuple[float, float, int]:
    """Mean rank correlation, mean regret, number of groups. Raises ValueError if no group is large enough."""
    correlations, regrets = zip(*choices_by_group(runs, predict), strict=True)
    return statistics.mean(correlations), statistics.mean(regrets), len(correlations)


def choices_by_group(runs: Sequence[Run], predict: Callable[[Run], float]) -> list[tuple[float, float]]:
    """Rank correlation and regret of each group. Raises ValueError if no group is large enough."""
    groups = same_choice(runs)
    if not groups:
        raise ValueError(f"no 3 of these {len(runs)} runs differ only in their layout: give more runs")
    found = []
    for group in groups:
        measured, predicted = [run.step_seconds or 0.0 for run in group], [predict(run) for run in group]
        found.append((rank_correlation(measured, predicted), regret(measured, predicted)))
    return found


def bootstrap_interval(values: Sequence[float], coverage: float = 0.9, seed: int = 0) -> tuple[float, float]:
    """The interval that contains the mean in this share of bootstrap samples, drawn with replacement (Efron, 1979).

    The same seed gives the same interval. Raises ValueError for no values.
    """
    if not values:
        raise ValueError("cannot take the mean of no values: give one or more")
    draw = random.Random(seed)
    means = sorted(statistics.fmean(draw.choices(values, k=len(values))) for _ in range(DRAWS))
    beyond = (1 - coverage) / 2
    return means[round(beyond * (DRAWS - 1))], means[round((1 - beyond) * (DRAWS - 1))]


def _ranks(numbers: Sequence[float]) -> list[float]:
    """Rank of each number in ascending order; equal numbers share their mean rank."""
    return [sum(other < one for other in numbers) + (numbers.count(one) - 1) / 2 for one in list(numbers)]
