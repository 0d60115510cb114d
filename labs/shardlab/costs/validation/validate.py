"""Errors of the time model on published runs: `python -m shardlab.costs.validation`, `--fit` for the constants.

No family's error uses constants fitted on it: each source in turn is left out, the constants are fitted on the others,
and the source is predicted. The formulas were written with all sources at hand, so only the constants are unseen. For
comparison there is the simplest baseline under the same rules: one hardware-FLOP utilization for each generation and
precision. A prediction also has to choose well: the layout predicted to be fastest, among those measured, is fast.
"""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shardlab.costs.layout import Layout
from shardlab.costs.models.flops import hardware_flops_per_token
from shardlab.costs.uncertainty import COVERAGE, covered_share, error_factor, held_out_coverage
from shardlab.costs.validation.fitting import Predict, fit, predict, residuals_of
from shardlab.costs.validation.memory_validate import memory_runs
from shardlab.costs.validation.memory_validate import table as memory_table
from shardlab.costs.validation.published import Run, read_runs

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


SUBSETS: dict[str, Callable[[Run], bool]] = {
    "16-bit runs with tensor or pipeline parallelism": lambda run: (
        not run.fp8 and run.layout.tp * run.layout.pp > 1 and not run.model.experts
    ),
    "FSDP runs": lambda run: run.layout.zero == 3 and run.layout.tp * run.layout.pp == 1 and not run.model.experts,
    "runs with experts": lambda run: run.model.experts > 0,
    "runs with context parallelism": lambda run: run.layout.cp > 1,
}
RANK, REGRET = "rank correlation", "top-1 regret"
COVERED, FACTOR = f"runs in the {COVERAGE:.0%} interval of the others", f"factor of the {COVERAGE:.0%} interval"
BARS: dict[str, float | tuple[float, float]] = {
    "all families": 0.08,
    "FSDP runs": 0.10,
    RANK: 0.75,
    REGRET: 0.04,
    COVERED: (COVERAGE - 0.05, COVERAGE + 0.05),
}
PLAIN = (RANK, FACTOR)  # plain numbers, not shares


@dataclass(frozen=True)
class Errors:
    """Signed relative errors by family, predicted / measured - 1."""

    by_family: dict[str, list[float]]

    @property
    def macro(self) -> float:
        """The mean over families of each family's mean absolute error, so that every source has the same weight."""
        return statistics.mean(statistics.mean(map(abs, errors)) for errors in self.by_family.values())

    @property
    def all(self) -> list[float]:
        return [abs(error) for errors in self.by_family.values() for error in errors]

    @property
    def median(self) -> float:
        return statistics.median(self.all)

    def share_within(self, bound: float) -> float:
        return sum(error <= bound for error in self.all) / len(self.all)


def measured_runs() -> list[Run]:
    """The runs with a step time, except those that their source marks as outliers or misprints."""
    return [run for run in read_runs() if run.step_seconds and not run.flagged]


def errors_of(runs: Sequence[Run], predicted: Predict) -> Errors:
    by_family: dict[str, list[float]] = {}
    for run in runs:
        assert run.step_seconds
        by_family.setdefault(run.family, []).append(predicted(run) / run.step_seconds - 1)
    return Errors(by_family)


def constant_utilisation(runs: Sequence[Run]) -> Predict:
    """The baseline: the median hardware-FLOP utilization of these runs, by generation and precision."""

    def hardware_seconds(run: Run) -> float:
        flops = hardware_flops_per_token(run.model, run.layout.recompute, causal=run.model.flash)
        tokens = run.layout.sequences_per_step * run.model.sequence
        return flops * tokens / run.layout.world / run.gpu.bf16_flops

    known: dict[object, list[float]] = {}
    for run in runs:
        assert run.step_seconds
        for key in ((run.gpu.generation, run.fp8), run.gpu.generation, None):
            known.setdefault(key, []).append(hardware_seconds(run) / run.step_seconds)
    utilisation = {key: statistics.median(values) for key, values in known.items()}

    def predicted(run: Run) -> float:
        for key in ((run.gpu.generation, run.fp8), run.gpu.generation, None):
            if key in utilisation:
                return hardware_seconds(run) / utilisation[key]
        raise AssertionError("no runs")

    return predicted


def held_out(runs: Sequence[Run], fitted: Callable[[Sequence[Run]], Predict]) -> Predict:
    """Predicts the runs of each family with constants fitted on all the others."""
    seconds: dict[str, float] = {}
    for family in {run.family for run in runs}:
        predicted = fitted([run for run in runs if run.family != family])
        seconds |= {run.id: predicted(run) for run in runs if run.family == family}
    return lambda run: seconds[run.id]


def fitted_model(runs: Sequence[Run]) -> Predict:
    efficiency = fit(runs)
    return lambda run: predict(run, efficiency)


def table(ours: Errors, rival: Errors) -> str:
    """One row per family: runs, mean absolute and signed error, the baseline's error; then both averages."""
    lines = [f"{'family':10} {'runs':>4} {'error':>7} {'bias':>7} {'constant utilization':>21}"]
    for family, errors in ours.by_family.items():
        mean, bias = statistics.mean(map(abs, errors)), statistics.mean(errors)
        other = statistics.mean(map(abs, rival.by_family[family]))
        lines.append(f"{family:10} {len(errors):4} {mean:7.1%} {bias:+7.1%} {other:21.1%}")
    lines.append(f"{'mean':10} {len(ours.all):4} {ours.macro:7.1%} {'':7} {rival.macro:21.1%}")
    for name, of in (("median of all runs", "median"), ("within 10%", 0.1), ("within 20%", 0.2)):
        shown = [e.median if isinstance(of, str) else e.share_within(of) for e in (ours, rival)]
        lines.append(f"{name:20} {shown[0]:9.1%} {shown[1]:21.1%}")
    return "\n".join(lines)


def measures(runs: Sequence[Run], predicted: Predict) -> dict[str, float]:
    """The figures that have a bar, and others printed with them, by name."""
    errors = {name: errors_of([run for run in runs if kept(run)], predicted).macro for name, kept in SUBSETS.items()}
    correlation, lost, _ = choices(runs, predicted)
    residuals = residuals_of(runs, predicted)
    interval = {COVERED: covered_share(held_out_coverage(residuals)), FACTOR: error_factor(residuals)}
    return {"all families": errors_of(runs, predicted).macro} | errors | {RANK: correlation, REGRET: lost} | interval


def summary(ours: dict[str, float], rival: dict[str, float]) -> str:
    """One row per figure: ours, the baseline's, the bar, and whether it is missed."""
    lines = [f"{'':50} {'ours':>6} {'constant utilization':>21} {'bar':>6}"]
    for name, value in ours.items():
        shown = [f"{one:.2f}" if name in PLAIN else f"{one:.1%}" for one in (value, rival[name])]
        bar, missed = _against_bar(name, value)
        lines.append(f"{name:50} {shown[0]:>6} {shown[1]:>21} {bar:>6}{'  missed' * missed}".rstrip())
    return "\n".join(lines)


def _against_bar(name: str, value: float) -> tuple[str, bool]:
    """The bar of a figure as text, and whether the figure misses it."""
    bar = BARS.get(name)
    if bar is None:
        return "", False
    if isinstance(bar, tuple):
        return f"{bar[0]:.0%}–{bar[1]:.0%}", not bar[0] <= value <= bar[1]
    return (f"{bar:.2f}", value < bar) if name == RANK else (f"{bar:.1%}", value > bar)


def uncertain_rank(runs: Sequence[Run], predicted: Predict) -> str:
    """The rank correlation with its interval from a bootstrap over groups."""
    correlations = [correlation for correlation, _ in choices_by_group(runs, predicted)]
    low, high = bootstrap_interval(correlations)
    mean = statistics.mean(correlations)
    return f"bootstrap of {len(correlations)} groups: {RANK} {mean:.2f}, 90% interval {low:.2f} to {high:.2f}"


def report() -> str:
    """Step times, choices between layouts, intervals and memory, each with its baseline or bar."""
    runs = measured_runs()
    ours, rival = held_out(runs, fitted_model), held_out(runs, constant_utilisation)
    groups, errors = choices(runs, ours)[2], errors_of(runs, ours)
    return "\n".join(
        [
            f"{len(runs)} published runs from {len(errors.by_family)} sources. Each source is predicted with constants "
            "fitted without it.\n",
            table(errors, errors_of(runs, rival)),
            f"\nMacro averages over families; {groups} groups of runs that differ only in their layout",
            summary(measures(runs, ours), measures(runs, rival)),
            uncertain_rank(runs, ours),
            "",
            memory_table(memory_runs()),
        ]
    )
