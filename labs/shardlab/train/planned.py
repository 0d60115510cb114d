"""From a layout of the planner to a recipe that trains it as it is, and what was measured beside it. No torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from shardlab.costs.axis_traffic import pp_boundary_bytes, tp_layer_bytes, traffic_of_step
from shardlab.costs.clock.calibrated import FP32
from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer
from shardlab.costs.planning.planner import Plan
from shardlab.train.logs import entries, read_log
from shardlab.train.recipe import Recipe, from_tables, to_tables

SCHEDULES = {"1f1b": "1f1b", "gpipe": "gpipe", "zero-bubble": "zb-h1"}
WARM_UP = 2  # steps in which connections and memory come into being


class Beside(NamedTuple):
    """One number of a plan and what was measured, in `unit`."""

    what: str
    unit: str
    predicted: float
    measured: float


def recipe_of(model: Transformer, layout: Layout, *, steps: int, folder: Path) -> Recipe:
    """The recipe of a plan, in the numbers it counts with: bf16 with float32 masters, or float32.

    Raises ValueError for a model that the course's GPT is not, and for chunks that its schedules do not make.
    """
    if problem := next(_problems(model, layout), ""):
        raise ValueError(f"this plan cannot be run: {problem}")
    interleaved = {"schedule": "interleaved"} if layout.virtual > 1 else {"schedule": SCHEDULES[layout.schedule]}
    experts = {
        "experts": model.experts,
        "active": model.active_experts,
        "width": model.expert_ffn,
        "shared": model.shared_experts,
        "gated": model.gated,
    }
    tables = {
        "model": {
            **{name: getattr(model, name) for name in ("layers", "hidden", "heads", "sequence", "kv_heads", "tied")},
            "vocabulary": model.vocab,
            "gated": model.gated and not model.experts,
            "rope": not model.positions,
        },
        "mesh": {name: getattr(layout, name) for name in ("dp", "pp", "cp", "tp", "ep")}
        | ({"etp": 1} if layout.ep > 1 else {}),
        "step": {
            "batch": layout.sequences_per_step,
            "microbatches": layout.num_microbatches,
            "zero": layout.zero,
            "recompute": layout.recompute,
            "dtype": "float32" if model.number_bytes == FP32 else "bfloat16",
            "sequence_parallel": layout.sequence_parallel,
            "context": layout.context if layout.context == "ulysses" else "ring",
            **interleaved,
        },
        "run": {"steps": steps, "folder": str(folder)},
        "checkpoints": {"resume": False, "at_end": False},
        "log": {"measure": WARM_UP + 1, "tensorboard": False, "figure": False},
    }
    return from_tables(tables | ({"experts": experts} if model.experts else {}))


def to_toml(recipe: Recipe) -> str:
    """A recipe as TOML: what JSON writes of text, numbers, true and false is TOML, too."""
    sections = (
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for name, table in to_tables(recipe).items()
    )
    return "\n".join(sections)


def beside(plan: Plan, model: Transformer, folder: Path) -> list[Beside]:
    """A plan's numbers and its run's: seconds, the fullest rank's bytes, bytes by axis of the rank that sends most.

    Raises ValueError where the run has left no measurement.
    """
    found = next((entry for entry in entries(folder) if "measured" in entry), None)
    seconds = [row["seconds"] for row in read_log(folder) if row["step"] > WARM_UP + 2]
    if found is None or not seconds:
        raise ValueError(f"the run in {folder} has measured nothing: give it {WARM_UP + 3} steps or more")
    by_rank = found["measured"]
    rows = [
        Beside("step", "s", plan.step.total, median(seconds)),
        Beside("memory of the fullest rank", "bytes", plan.memory.total, max(one["peak"] for one in by_rank)),
    ]
    for name, predicted in _by_name(model, plan.layout, found["names"]).items():
        measured = max(one["sent"].get(name, 0.0) for one in by_rank)
        if predicted or measured:
            rows.append(Beside(f"sent on {name}", "bytes", predicted, measured))
    return rows


def _by_name(model: Transformer, layout: Layout, names: dict[str, str]) -> dict[str, float]:
    """The plan's bytes by the names under which the meter counts axes that have the same ranks."""
    sent = traffic_of_step(model, layout)
    by_axis = {
        "tp": sent.tp_forward + sent.tp_backward + _gathered_again(model, layout),
        "cp": sent.cp_forward + sent.cp_backward,
        "ep": sent.ep_forward + sent.ep_backward,
        "pp": _between_stages(model, layout),
        "dp-cp": sent.dp,
    }
    found: dict[str, float] = {}
    for axis, num_bytes in by_axis.items():
        name = names.get(axis, axis)
        found[name] = found.get(name, 0.0) + num_bytes
    return found


def _gathered_again(model: Transformer, layout: Layout) -> float:
    """With a split sequence: what a layer's backward gathers again, two halves of an all-reduce beside the four each
    way; a half behind the embedding and back, and three around the output layer, on the stage that has most of them.
    """
    if not layout.sequence_parallel:
        return 0.0
    ends = 5 if layout.pp == 1 else 3
    halves = 2 * model.layers / layout.pp + ends
    return halves * tp_layer_bytes(model, layout) / 4 * layout.num_microbatches


def _between_stages(model: Transformer, layout: Layout) -> float:
    """Of the rank that sends most: with v chunks one in the middle of a pipeline sends 2v messages per microbatch;
    the first and the last one less, and a tied embedding's gradient in float32.
    """
    if layout.pp == 1:
        return 0.0
    each = pp_boundary_bytes(model, layout) * layout.num_microbatches
    tied = FP32 * model.vocab * model.hidden / layout.tp / (layout.state_sharers if layout.zero else 1)
    at_the_ends = (2 * layout.virtual - 1) * each + (tied if model.tied else 0.0)
    return max(at_the_ends, 2 * layout.virtual * each if layout.pp > 2 else 0.0)


def _problems(model: Transformer, layout: Layout) -> Iterator[str]:
    """Why the course's GPT is not this model, or its trainer not this layout; each with what would work."""
    each: dict[str, tuple[Any, Any]] = {
        "latent": (model.latent, None),
        "dense_layers": (model.dense_layers if model.experts else 0, 0),
        "qk_norm": (model.qk_norm, False),
        "norm_vectors": (model.norm_vectors, 4),
        "bias": (model.bias, True),
        "ffn": (model.ffn if not model.experts else 4 * model.hidden, 4 * model.hidden),
        "head_dim": (model.head_dim or model.hidden // model.heads, model.hidden // model.heads),
        "positions": (model.positions or model.sequence, model.sequence),
    }
    for name, (given, ours) in each.items():
        if given != ours:
            yield f"{model.name} has {name} = {given}, and the course's GPT {ours}: use a file with {name} = {ours}"
    if model.vocab < 256:
        yield f"a vocabulary of {model.vocab}, and tokens are bytes: use 256 or more"
    if layout.schedule not in SCHEDULES:
        yield f"its schedule is {layout.schedule}, which the trainer has not: use --schedule 1f1b"
    if layout.recompute == "norms" or layout.recomputed:
        yield "it recomputes parts that the trainer keeps: use --recompute none --recompute full"
    if layout.virtual not in (1, 2):
        yield f"{layout.virtual} chunks on each stage, and the interleaved schedule here has 2: use --schedule gpipe"


def table(rows: list[Beside]) -> list[str]:
    """Lines for people."""
    lines = [f"  {'':<30}{'predicted':>16}{'measured':>16}   ratio"]
    for row in rows:
        numbers = [f"{x:,.3f} s" if row.unit == "s" else f"{x:,.0f}" for x in (row.predicted, row.measured)]
        ratio = f"{row.measured / row.predicted:5.2f}" if row.predicted else "    -"
        lines.append(f"  {row.what:<30}{numbers[0]:>16}{numbers[1]:>16}   {ratio}")
    return lines
