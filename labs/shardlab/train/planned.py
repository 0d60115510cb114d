"""Turn a planner's layout into a recipe that trains it, and compare the plan with measurements. Imports no torch."""

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
WARM_UP = 2  # steps in which connections are opened and memory is allocated


class Beside(NamedTuple):
    """One number of a plan and its measurement, in `unit`."""

    what: str
    unit: str
    predicted: float
    measured: float


def recipe_of(model: Transformer, layout: Layout, *, steps: int, folder: Path) -> Recipe:
    """The recipe of a plan, in the dtype that the plan assumes: bf16 with float32 masters, or float32.

    Raises ValueError for a model that the course's GPT cannot be, or a number of chunks that no schedule supports.
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
    """A recipe as TOML: JSON's text, numbers and booleans are valid TOML."""
    sections = (
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for name, table in to_tables(recipe).items()
    )
    return "\n".join(sections)


def beside(plan: Plan, model: Transformer, folder: Path) -> list[Beside]:
    """Compare a plan with its run: seconds, peak bytes of the fullest rank, bytes by axis of the rank that sends most.

    Raises ValueError if the run recorded no measurement.
    """
    found = next((entry for entry in entries(folder) if "measured" in entry), None)
    seconds = [row["seconds"] for row in read_log(folder) if row["step"] > WARM_UP + 2]
    if found is None or not seconds:
        raise ValueError(f"the run in {folder} recorded no measurement: give it {WARM_UP + 3} steps or more")
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
    """The plan's bytes, by the names under which the meter counts them (axes with the same ranks share a name)."""
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
    """With sequence parallelism: bytes beyond the four half all-reduces of each layer's forward and backward.

    A layer's backward gathers again, which costs two more halves. The ends of the model add a half after the embedding,
    another in its backward, and three around the output layer; the stage with the most of them counts.
    """
    if not layout.sequence_parallel:
        return 0.0
    ends = 5 if layout.pp == 1 else 3
    halves = 2 * model.layers / layout.pp + ends
    return halves * tp_layer_bytes(model, layout) / 4 * layout.num_microbatches


def _between_stages(model: Transformer, layout: Layout) -> float:
    """Bytes between stages of the rank that sends most.

    With v chunks, a rank in the middle of a pipeline sends 2v messages per microbatch. The first and the last rank send
    one less, plus a tied embedding's gradient in float32.
    """
    if layout.pp == 1:
        return 0.0
    each = pp_boundary_bytes(model, layout) * layout.num_microbatches
    tied = FP32 * model.vocab * model.hidden / layout.tp / (layout.state_sharers if layout.zero else 1)
    at_the_ends = (2 * layout.virtual - 1) * each + (tied if model.tied else 0.0)
    return max(at_the_ends, 2 * layout.virtual * each if layout.pp > 2 else 0.0)


def _problems(model: Transformer, layout: Layout) -> Iterator[str]:
    """Why the course's GPT cannot be this model, or its trainer cannot use this layout; each says what would work."""
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
            yield f"{model.name} has {name} = {given}, but the course's GPT {ours}: use a file with {name} = {ours}"
    if model.vocab < 256:
        yield f"a vocabulary of {model.vocab} is too small, because tokens are bytes: use 256 or more"
    if layout.schedule not in SCHEDULES:
        yield f"its schedule is {layout.schedule}, which the trainer does not have: use --schedule 1f1b"
    if layout.recompute == "norms" or layout.recomputed:
        yield "it recomputes parts that the trainer saves: use --recompute none --recompute full"
    if layout.virtual not in (1, 2):
        yield f"it has {layout.virtual} chunks per stage, but the interleaved schedule has 2: use --schedule gpipe"


def table(rows: list[Beside]) -> list[str]:
    """Lines for people."""
    lines = [f"  {'':<30}{'predicted':>16}{'measured':>16}   ratio"]
    for row in rows:
        numbers = [f"{x:,.3f} s" if row.unit == "s" else f"{x:,.0f}" for x in (row.predicted, row.measured)]
        ratio = f"{row.measured / row.predicted:5.2f}" if row.predicted else "    -"
        lines.append(f"  {row.what:<30}{numbers[0]:>16}{numbers[1]:>16}   {ratio}")
    return lines
