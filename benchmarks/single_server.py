"""Errors of the time model on one server: `python -m benchmarks.single_server`.

861 steps of small GPTs on 2, 4 and 8 A100s, measured with Megatron-DeepSpeed for vTrain (arXiv 2312.12391;
VIA-Research/vTrain, data/ground_truth_single.csv). No constant is fitted on them, except the launch time of a layer's
kernels, which `setup.LAUNCH_SECONDS` takes from the fastest. The simplest baseline is shown as well: one
hardware-FLOP utilization, the median over all rows of the other families.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

from shardlab.costs.uncertainty import COVERAGE, step_interval
from shardlab.costs.validation.predictions import predict_seconds
from shardlab.costs.validation.published import Run, run_of
from shardlab.costs.validation.validate import (
    RANK,
    REGRET,
    Errors,
    Predict,
    choices,
    constant_utilisation,
    errors_of,
    held_out,
    summary,
    table,
    uncertain_rank,
)

STEPS = Path(__file__).parent / "results" / "single_node_a100_steps.csv"
COLUMNS = {
    "n_gpus": "# GPUs",
    "global_batch": "global batch",
    "micro_batch": "micro batch",
    "hidden": "hidden size",
    "heads": "attention heads",
    "kv_heads": "attention heads",
    "layers": "# layers",
    "seq": "sequence length",
    "tp": "tensor parallelism",
    "dp": "data parallelism",
    "pp": "pipeline parallelism",
}
# the same as in this source's multi-server runs, which are in the table of published runs
PROGRAM = {
    "source": "VIA-Research/vTrain data/ground_truth_single.csv",
    "note": "Megatron-DeepSpeed measured; activation checkpointing on; no grad bucketing",
    "gpu": "A100-80GB-SXM",
    "vocab": "50257",
    "cp": "1",
    "ep": "1",
    "virtual_pp": "1",
    "recompute": "full",
    "sp": "False",
    "zero_stage": "0",
    "schedule": "none",
    "precision": "fp16",
    "arch": "gpt",
    "params_B": "",
    "table": "single node",
}


def read_steps(path: Path = STEPS) -> list[Run]:
    """All rows as runs; a family is the set of axes that split the model. Raises ValueError for an invalid row."""
    with path.open(newline="") as file:
        return [_run(number, row) for number, row in enumerate(csv.DictReader(file))]


def _run(number: int, row: dict[str, str]) -> Run:
    named = {ours: row[theirs] for ours, theirs in COLUMNS.items()}
    axes = [axis for axis in ("tp", "dp", "pp") if int(named[axis]) > 1]
    milliseconds = float(row["iteration time (ms)"])
    return run_of(
        PROGRAM
        | named
        | {
            "id": f"{' '.join(axes)}-{number}",
            "model": f"GPT-{named['layers']}x{named['hidden']}",
            "ffn": str(4 * int(named["hidden"])),
            "reported_step_s": str(milliseconds / 1e3),
        }
    )


def report(runs: Sequence[Run]) -> str:
    """Like the report on published runs: a row per way to split a model, the baseline, choices and the same bars."""
    rival = held_out(runs, constant_utilisation)
    ours, theirs = errors_of(runs, predict_seconds), errors_of(runs, rival)
    of_choices, theirs_of_choices = _of_choices(runs, predict_seconds), _of_choices(runs, rival)
    return "\n".join(
        [
            f"{len(runs)} runs on one server of A100s, by the axes that split the model. No constant is fitted on\n"
            "them except the launch time of a layer's kernels.\n",
            table(Errors(dict(sorted(ours.by_family.items()))), theirs),
            f"\n{choices(runs, predict_seconds)[2]} groups of runs that differ only in their layout",
            summary(of_choices, theirs_of_choices),
            uncertain_rank(runs, predict_seconds),
            f"{covered(runs):.1%} of the runs are in the {COVERAGE:.0%} interval computed from the published runs",
        ]
    )


def covered(runs: Sequence[Run], coverage: float = COVERAGE) -> float:
    """The share of these runs whose time is in the interval of its prediction."""

    def inside(run: Run) -> bool:
        low, high = step_interval(predict_seconds(run), coverage)
        return low <= (run.step_seconds or 0.0) <= high

    return sum(map(inside, runs)) / len(runs)


def _of_choices(runs: Sequence[Run], predicted: Predict) -> dict[str, float]:
    correlation, lost, _ = choices(runs, predicted)
    return {RANK: correlation, REGRET: lost}


if __name__ == "__main__":
    print(report(read_steps()))
