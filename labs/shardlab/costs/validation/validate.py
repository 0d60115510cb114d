"""How wrong the time model is on published runs: `python -m shardlab.costs.validation`, `--fit` for the constants.

No family's error is computed with constants that saw it: each source in turn is left out, the constants are fitted on
the others, and the source is predicted. Beside it the simplest rival by the same rules: one hardware-FLOP utilisation
for each generation and precision.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardlab.costs.flops import hardware_flops_per_token
from shardlab.costs.validation.fitting import fit, predict
from shardlab.costs.validation.memory_validate import memory_runs
from shardlab.costs.validation.memory_validate import table as memory_table
from shardlab.costs.validation.published import Run, read_runs
from shardlab.costs.validation.ranking import choices

Predict = Callable[[Run], float]
SUBSETS: dict[str, Callable[[Run], bool]] = {
    "16-bit runs with tensor or pipeline parallelism": lambda run: (
        not run.fp8 and run.layout.tp * run.layout.pp > 1 and not run.model.experts
    ),
    "FSDP runs": lambda run: run.layout.zero == 3 and run.layout.tp * run.layout.pp == 1 and not run.model.experts,
    "runs with experts": lambda run: run.model.experts > 0,
    "runs with context parallelism": lambda run: run.layout.cp > 1,
}
RANK, REGRET = "rank correlation", "top-1 regret"
BARS = {"all families": 0.08, "FSDP runs": 0.10, RANK: 0.75, REGRET: 0.04}


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


def errors_of(runs: Sequence[Run], predicted: Predict) -> Errors:
    by_family: dict[str, list[float]] = {}
    for run in runs:
        assert run.step_seconds
        by_family.setdefault(run.family, []).append(predicted(run) / run.step_seconds - 1)
    return Errors(by_family)


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


def measures(runs: Sequence[Run], predicted: Predict) -> dict[str, float]:
    """The figures that have a bar, and the others that are printed beside them, by name."""
    errors = {name: errors_of([run for run in runs if kept(run)], predicted).macro for name, kept in SUBSETS.items()}
    correlation, lost, _ = choices(runs, predicted)
    return {"all families": errors_of(runs, predicted).macro} | errors | {RANK: correlation, REGRET: lost}


def summary(ours: dict[str, float], rival: dict[str, float]) -> str:
    """A row a figure: ours, the rival's, the bar, and whether it is missed."""
    lines = [f"{'':50} {'ours':>6} {'constant utilisation':>21} {'bar':>6}"]
    for name, value in ours.items():
        bar = BARS.get(name)
        shown = [f"{one:.2f}" if name == RANK else f"{one:.1%}" for one in (value, rival[name], bar or 0)]
        missed = bar is not None and (value < bar if name == RANK else value > bar)
        lines.append(f"{name:50} {shown[0]:>6} {shown[1]:>21} {shown[2] if bar else '':>6}{'  missed' * missed}")
    return "\n".join(lines)


def report() -> str:
    """Step times, choices between layouts, memory: each with what it was held against."""
    runs = measured_runs()
    ours, rival = held_out(runs, fitted_model), held_out(runs, constant_utilisation)
    groups = choices(runs, ours)[2]
    return "\n".join(
        [
            "Every family is predicted with constants that were fitted without it.\n",
            table(errors_of(runs, ours), errors_of(runs, rival)),
            f"\nMacro averages over families; {groups} groups of runs that differ in their layout only",
            summary(measures(runs, ours), measures(runs, rival)),
            "",
            memory_table(memory_runs()),
        ]
    )
