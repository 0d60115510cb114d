"""How wrong the time model is on one server: `python -m shardlab.costs.validation.validate_single_node`.

861 steps of small GPTs on 2, 4 and 8 A100, measured with Megatron-DeepSpeed for vTrain (arXiv 2312.12391; VIA-Research/
vTrain, data/ground_truth_single.csv). No constant is fitted on them, but for the launch of a layer's kernels, which
`efficiency.LAUNCH_SECONDS` takes from the fastest. Beside each error that of the simplest rival: one hardware-FLOP
utilisation, the median of all rows of the other families.
"""

import csv
import statistics
from collections.abc import Sequence
from pathlib import Path

from shardlab.costs.validation.predictions import predict_seconds
from shardlab.costs.validation.published import Run, run_of
from shardlab.costs.validation.ranking import choices
from shardlab.costs.validation.validate import constant_utilisation, errors_of, held_out

STEPS = Path(__file__).parents[1] / "data" / "single_node_a100_steps.csv"
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
# as the same source's runs on many servers, which the table of published runs has
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
    """All rows as runs; a family is which axes cut the model. Raises ValueError for a row that cannot be one."""
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


def table(runs: Sequence[Run]) -> str:
    """A row a family: runs, mean absolute and signed error, the rival's; then all, and how well layouts are ranked."""
    rival = held_out(runs, constant_utilisation)
    ours, theirs = errors_of(runs, predict_seconds), errors_of(runs, rival)
    lines = [f"{'cut by':10} {'runs':>4} {'error':>7} {'bias':>7} {'constant utilisation':>21}"]
    for family in sorted(ours.by_family):
        errors = ours.by_family[family]
        other = statistics.mean(map(abs, theirs.by_family[family]))
        mean, bias = statistics.mean(map(abs, errors)), statistics.mean(errors)
        lines.append(f"{family:10} {len(errors):4} {mean:7.1%} {bias:+7.1%} {other:21.1%}")
    lines.append(f"{'mean':10} {len(runs):4} {ours.macro:7.1%} {'':7} {theirs.macro:21.1%}")
    lines.append(f"{'median':10} {len(runs):4} {ours.median:7.1%} {'':7} {theirs.median:21.1%}")
    for name, predicted in (("ours", predict_seconds), ("constant utilisation", rival)):
        correlation, lost, groups = choices(runs, predicted)
        lines.append(f"{groups} choices, {name}: rank correlation {correlation:.2f}, regret {lost:.1%}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(read_steps()))
