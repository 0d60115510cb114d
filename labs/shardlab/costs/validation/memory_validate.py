"""Errors of the memory model on published runs: `python -m shardlab.costs.validation.memory_validate`.

One constant is fitted, the share lost to fragmentation in the caching allocator, never on the source that it predicts.
"""

import statistics
from collections.abc import Callable, Sequence

from shardlab.costs.validation.memory_rows import reported_bytes
from shardlab.costs.validation.published import Run, read_runs

BARS = {"allocated": 0.10, "reserved": 0.15, "nvidia-smi": 0.15}
ERRORS = dict[str, list[float]]  # family: predicted / measured - 1


def memory_runs() -> list[Run]:
    """The runs with a memory number, except those that their source marks as outliers or misprints."""
    return [run for run in read_runs() if run.memory_bytes and not run.flagged]


def predicted(run: Run, fragments: float) -> float:
    return reported_bytes(run.model, run.layout, run.reported, run.gradient_bytes, fragments)


def fit_fragments(runs: Sequence[Run]) -> float:
    """The fragmentation share that fits these runs best: the mean over families of each family's median.

    Runs whose source counts allocated bytes are ignored because they contain no fragmentation.
    """
    lost: ERRORS = {}
    for run in runs:
        if run.reported.counted != "allocated" and run.memory_bytes:
            without, share = predicted(run, 0.0), predicted(run, 1.0) - predicted(run, 0.0)
            lost.setdefault(run.family, []).append((run.memory_bytes - without) / share)
    return statistics.mean(statistics.median(family) for family in lost.values()) if lost else 0.0


def memory_errors(runs: Sequence[Run], fragments_of: Callable[[str], float]) -> ERRORS:
    """Signed errors by family; fragments_of: the constant used to predict a family."""
    errors: ERRORS = {}
    for run in runs:
        if run.memory_bytes:
            error = predicted(run, fragments_of(run.family)) / run.memory_bytes - 1
            errors.setdefault(run.family, []).append(error)
    return errors


def held_out_errors(runs: Sequence[Run]) -> ERRORS:
    """Each family predicted with the constant of all others."""
    families = {run.family for run in runs}
    fragments = {one: fit_fragments([run for run in runs if run.family != one]) for one in families}
    return memory_errors(runs, lambda family: fragments[family])


def table(runs: Sequence[Run]) -> str:
    """One row per family: what its source counts, runs, mean absolute and signed error, the worst error, the bar."""
    counted = {run.family: run.reported.counted for run in runs}
    lines = [f"{'memory':10}{'counted':>11}{'rows':>6}{'error':>8}{'bias':>8}{'worst':>8}{'bar':>6}"]
    for family, errors in held_out_errors(runs).items():
        mean, bias, worst = statistics.mean(map(abs, errors)), statistics.mean(errors), max(errors, key=abs)
        bar = BARS[counted[family]]
        lines.append(f"{family:10}{counted[family]:>11}{len(errors):6}{mean:8.1%}{bias:+8.1%}{worst:+8.1%}{bar:6.0%}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(memory_runs()))
    print(f"fragmentation, fitted on all: {fit_fragments(memory_runs()):.3f} of the allocated bytes")
