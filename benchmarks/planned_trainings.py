"""Train plans for this CPU exactly as planned: seconds per step, memory and bytes by axis, measured over planned.

The machine is calibrated right before. The ranks share its cores, so seconds depend on other running programs; bytes do
not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

from shardlab.commands.calibration.measure import calibrate
from shardlab.commands.plan import run_plan
from shardlab.costs.hardware import Accelerator
from shardlab.costs.layout import Layout
from shardlab.costs.machines import as_accelerator, as_trained
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.planner import Plan, memory_of, seconds_of

from benchmarks.row import Row

GPT2 = Transformer(
    "GPT-2's kind", 4, 128, 4, 4, 512, 256, 128, bias=True, norm_vectors=4, tied=True, gated=False, positions=128
)
LLAMA = Transformer(
    "Llama's kind", 8, 96, 6, 2, 384, 320, 96, bias=True, norm_vectors=4, tied=False, gated=True, positions=0
)
STEPS = 16
ALL = (
    Layout(microbatch=16),
    Layout(num_microbatches=16),
    Layout(microbatch=16, recompute="full"),
    Layout(microbatch=8, dp=2),
    Layout(microbatch=8, dp=2, zero=3),
    Layout(num_microbatches=8, dp=2, zero=1),
    Layout(num_microbatches=2, microbatch=4, dp=2, zero=2),
    Layout(microbatch=16, tp=2),
    Layout(microbatch=16, cp=2),
    Layout(num_microbatches=4, microbatch=4, pp=2),
    Layout(num_microbatches=8, microbatch=2, pp=2, virtual=2),
    Layout(num_microbatches=4, microbatch=4, pp=2, schedule="gpipe"),
    Layout(num_microbatches=8, microbatch=2, pp=2, schedule="zero-bubble"),
    Layout(microbatch=4, dp=4),
    Layout(num_microbatches=4, microbatch=2, dp=2, pp=2, zero=1),
    Layout(microbatch=8, dp=2, tp=2),
    Layout(num_microbatches=4, microbatch=2, dp=2, tp=2, pp=2),
)
NEAR = {"s": 0.15, "bytes": 0.05}


def measure() -> Iterator[Row]:
    """Yield three or more rows for each layout of both models."""
    seen = calibrate((2, 4, 8))
    for model in (GPT2, LLAMA):
        for layout in ALL:
            here = as_accelerator(seen, ranks=layout.world)
            yield from rows_of(as_trained(model, here), layout, here)


def rows_of(model: Transformer, layout: Layout, here: Accelerator) -> Iterator[Row]:
    """Yield a row for each number that a training measured, compared with its plan."""
    split = replace(layout, sequence_parallel=layout.tp > 1)
    plan = Plan(split, memory_of(model, split), seconds_of(model, split, here))
    for one in run_plan(plan, model, steps=STEPS, quiet=True):
        if not one.predicted:
            continue
        near, ratio = NEAR[one.unit], one.measured / one.predicted
        name = f"{model.name}, {written(layout)}: {one.what}, {one.unit}"
        yield Row(name, one.measured, one.predicted, ratio, f"within {near:.0%} of planned", abs(ratio - 1) <= near)


def written(layout: Layout) -> str:
    """Describe how a layout differs from that of one rank."""
    plain = asdict(Layout())
    return ", ".join(f"{name} {value}" for name, value in asdict(layout).items() if value != plain[name])
