"""How wrong the time model is on published runs: `python -m shardlab.costs.validate`, `--fit` for the constants.

No family's error is computed with constants that saw it: each source in turn is left out, the constants are fitted on
the others, and the source is predicted. Beside it the simplest rival by the same rules: one hardware-FLOP utilisation
for each generation and precision.
"""

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from shardlab.costs.efficiency import FITTED, Efficiency
from shardlab.costs.flops import hardware_flops_per_token
from shardlab.costs.memory_validate import memory_runs
from shardlab.costs.memory_validate import table as memory_table
from shardlab.costs.published import Run, read_runs
from shardlab.costs.ranking import choices
from shardlab.costs.step import step_seconds

Predict = Callable[[Run], float]
GUESSED = Efficiency()
PULL = 0.01
SUBSETS: dict[str, Callable[[Run], bool]] = {
    "16-bit runs with tensor or pipeline parallelism": lambda run: (
        not run.fp8 and run.layout.tp * run.layout.pp > 1 and not run.model.experts
    ),
    "FSDP runs": lambda run: run.layout.zero == 3 and run.layout.tp * run.layout.pp == 1 and not run.model.experts,
    "runs with experts": lambda run: run.model.experts > 0,
    "runs with context parallelism": lambda run: run.layout.cp > 1,
}
UPPER = {"launch_seconds": 5e-3, "hop_seconds": 1e-3}  # the other constants are shares, at most 1


@dataclass(frozen=True)
class Errors:
    """Signed relative errors by family, predicted / measured - 1."""

    by_family: dict[str, list[float]]

    @property
    def macro(self) -> float:
        """The mean over families of each family's mean absolute error: a source with many rows weighs as any other."""
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
    """The runs with a step time, without those whose source has a mark of an outlier or of a misprint."""
    return [run for run in read_runs() if run.step_seconds and not run.flagged]


def predict(run: Run, efficiency: Efficiency = FITTED) -> float:
    """Seconds of a step; reads nothing that was reported."""
    return step_seconds(
        run.model, run.layout, run.gpu, efficiency=efficiency, fp8=run.fp8, gradient_bytes=run.gradient_bytes
    ).total


def errors_of(runs: Sequence[Run], predicted: Predict) -> Errors:
    by_family: dict[str, list[float]] = {}
    for run in runs:
        assert run.step_seconds
        by_family.setdefault(run.family, []).append(predicted(run) / run.step_seconds - 1)
    return Errors(by_family)


def fit(runs: Sequence[Run], start: Efficiency = GUESSED, rounds: int = 20) -> Efficiency:
    """Constants with the least macro error on these runs: one at a time, by ever smaller factors.

    Leaving a guess costs PULL for each factor of e, so that a constant which no run can tell stays where it was.
    """

    def loss(tried: Efficiency) -> float:
        moved = sum(abs(math.log(getattr(tried, f.name) / getattr(start, f.name))) for f in fields(Efficiency))
        return errors_of(runs, lambda run: predict(run, tried)).macro + PULL * moved

    best, least = start, loss(start)
    factor = 1.25
    for _ in range(rounds):
        before = least
        for field in fields(Efficiency):
            for times in (factor, 1 / factor):
                value = min(getattr(best, field.name) * times, UPPER.get(field.name, 1.0))
                tried = replace(best, **{field.name: value})
                error = loss(tried)
                if error < least:
                    best, least = tried, error
        if before - least < 1e-4:
            factor = math.sqrt(factor)
        if factor < 1.01:
            break
    return best


def constant_utilisation(runs: Sequence[Run]) -> Predict:
    """The rival: the median hardware-FLOP utilisation of these runs, by generation and precision."""

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
    """Predicts the runs of each family with constants of all the others."""
    seconds: dict[str, float] = {}
    for family in {run.family for run in runs}:
        predicted = fitted([run for run in runs if run.family != family])
        seconds |= {run.id: predicted(run) for run in runs if run.family == family}
    return lambda run: seconds[run.id]


def fitted_model(runs: Sequence[Run]) -> Predict:
    efficiency = fit(runs)
    return lambda run: predict(run, efficiency)


def table(ours: Errors, rival: Errors) -> str:
    """A row a family: runs, mean absolute and signed error, the rival's; then both averages."""
    lines = [f"{'family':10} {'runs':>4} {'error':>7} {'bias':>7} {'constant utilisation':>21}"]
    for family, errors in ours.by_family.items():
        mean, bias = statistics.mean(map(abs, errors)), statistics.mean(errors)
        other = statistics.mean(map(abs, rival.by_family[family]))
        lines.append(f"{family:10} {len(errors):4} {mean:7.1%} {bias:+7.1%} {other:21.1%}")
    lines.append(f"{'mean':10} {len(ours.all):4} {ours.macro:7.1%} {'':7} {rival.macro:21.1%}")
    for name, of in (("median of all runs", "median"), ("within 10%", 0.1), ("within 20%", 0.2)):
        shown = [e.median if isinstance(of, str) else e.share_within(of) for e in (ours, rival)]
        lines.append(f"{name:20} {shown[0]:9.1%} {shown[1]:21.1%}")
    return "\n".join(lines)


def report() -> str:
    """Step times, choices between layouts, memory: each with what it was held against."""
    runs = measured_runs()
    ours, rival = held_out(runs, fitted_model), held_out(runs, constant_utilisation)
    lines = [table(errors_of(runs, ours), errors_of(runs, rival)), ""]
    for name, kept in SUBSETS.items():
        some = [run for run in runs if kept(run)]
        both = [errors_of(some, one) for one in (ours, rival)]
        lines.append(f"{len(some)} {name}: macro {both[0].macro:.1%}, constant utilisation {both[1].macro:.1%}")
    for name, predicted in (("ours", ours), ("constant utilisation", rival)):
        correlation, lost, groups = choices(runs, predicted)
        lines.append(f"{groups} choices, {name}: rank correlation {correlation:.2f}, regret {lost:.1%}")
    lines += ["", memory_table(memory_runs())]
    return "\n".join(lines)


if __name__ == "__main__":
    print(fit(measured_runs()) if "--fit" in sys.argv else report())
