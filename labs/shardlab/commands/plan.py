"""The command `shardlab plan`: formulas only, no ranks and no torch."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

if TYPE_CHECKING:
    from shardlab.costs.hardware import Accelerator
    from shardlab.costs.model import Transformer
    from shardlab.costs.planning.batch import TokenBatch
    from shardlab.costs.planning.neighbours import Neighbour
    from shardlab.costs.planning.planner import Plan

GPU_NAMES = "v100 a100-40 a100 h100 h100-96 h800 h200 b200 b300 gb200 gb300 laptop here FILE"
Model = Annotated[str, typer.Option("--model", help="A name (a wrong one lists them), or a JSON file of sizes.")]
Gpu = Annotated[str, typer.Option("--gpu", help=GPU_NAMES)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
MOST_GPUS = 1_000_000
MOST_LAYERS = 1000  # of the deepest transformer known (DeepNet); to deal them to stages takes their square


def _degree(kind: str) -> Any:
    """The option that gives a degree of parallelism, so that it is not searched."""
    return typer.Option(min=1, max=MOST_GPUS, help=f"Ranks of {kind} parallelism, where they are given, not searched.")


class _Setup(TypedDict):
    fp8: bool
    imbalance: float


def plan(
    model: Model = "llama3-8b",
    gpu: Gpu = "h100",
    gpus: Annotated[int, typer.Option("--gpus", min=1, max=MOST_GPUS, help="How many of them.")] = 64,
    tokens_per_batch: Annotated[
        int, typer.Option("--tokens-per-batch", min=1, max=10**12, help="Tokens of a step, over all GPUs.")
    ] = 4_194_304,
    sequence: Annotated[
        int | None, typer.Option("--sequence", min=1, max=2**30, help="Tokens of a sequence, not the model's own.")
    ] = None,
    tp: Annotated[int | None, _degree("tensor")] = None,
    pp: Annotated[int | None, _degree("pipeline")] = None,
    cp: Annotated[int | None, _degree("context")] = None,
    dp: Annotated[int | None, _degree("data")] = None,
    ep: Annotated[int | None, _degree("expert")] = None,
    exact_batch: Annotated[
        bool, typer.Option("--exact-batch", help="Keep the batch as it is, not within 5% what the GPUs can share.")
    ] = False,
    best: Annotated[int, typer.Option("--best", min=1, help="How many plans to show.")] = 5,
    pipeline_zero: Annotated[
        int, typer.Option("--pipeline-zero", min=0, max=2, help="Highest ZeRO stage to try beside a pipeline.")
    ] = 1,
    schedule: Annotated[
        list[str] | None, typer.Option("--schedule", help="1f1b, gpipe, zero-bubble; more than one may be given.")
    ] = None,
    fp8: Annotated[bool, typer.Option("--fp8", help="Matrix products in fp8.")] = False,
    imbalance: Annotated[
        float, typer.Option("--imbalance", help="Tokens of the rank with the fullest experts over the mean; 1: even.")
    ] = 1.0,
    here: Annotated[bool, typer.Option("--here", help="As --gpu here: this machine, as it was calibrated.")] = False,
    run: Annotated[
        bool, typer.Option("--run", help="Train the first plan here, and print what it said beside what was measured.")
    ] = False,
    steps: Annotated[int, typer.Option("--steps", min=6, max=1000, help="Steps of --run.")] = 10,
    json: Json = False,
) -> None:
    """Find the layouts of a model on a cluster that fit, the fastest first, and why the first one wins.

    Times are predictions; `python -m shardlab.costs.validation` shows how wrong they are on published runs.
    """
    from shardlab.commands.plan_text import show
    from shardlab.costs.machines import find_accelerator
    from shardlab.costs.model import with_sequence
    from shardlab.costs.model_file import load_model
    from shardlab.costs.planning.batch import exact_batch as batch_as_it_is
    from shardlab.costs.planning.batch import shared_batch
    from shardlab.costs.planning.claims import doubts
    from shardlab.costs.planning.neighbours import neighbours
    from shardlab.costs.planning.pieces import best_stages
    from shardlab.costs.planning.planner import Search
    from shardlab.costs.planning.planner import plan as find_plans

    try:
        wanted, accelerator = load_model(model), find_accelerator("here" if here or run else gpu)
        _check_depth(wanted)
        if sequence is not None:
            wanted = with_sequence(wanted, sequence)
        if exact_batch:
            batch = batch_as_it_is(tokens_per_batch, wanted.sequence)
        else:
            batch = shared_batch(tokens_per_batch, wanted.sequence, gpus)
        degrees = {"tp": tp, "pp": pp, "cp": cp, "dp": dp, "ep": ep}
        fixed = {axis: degree for axis, degree in degrees.items() if degree is not None}
        search = Search(zero_with_pipeline=pipeline_zero, schedules=_schedules(schedule), fixed=fixed)
        found = find_plans(
            wanted, accelerator, gpus, batch.sequences, search=search, fp8=fp8, imbalance=imbalance, best=best
        )
    except (ValueError, RecursionError) as error:  # the latter from a file of nothing but brackets
        raise typer.BadParameter(str(error)) from None
    winner, setup = found[0], _Setup(fp8=fp8, imbalance=imbalance)
    inside = _inside_servers(wanted, accelerator, winner, search, **setup)
    answer = {
        "model": wanted.name,
        "gpu": accelerator.name,
        "gpus": gpus,
        "sequences": batch.sequences,
        "batch": _batch(batch),
        "plans": [_row(one, wanted, accelerator) for one in found],
        "neighbours": [_beside(winner, one) for one in neighbours(wanted, accelerator, winner, **setup)],
        "played_seconds": _played(winner, wanted, accelerator, **setup),
        "layers_of_stages": best_stages(wanted, winner.layout, accelerator, **setup).sizes,
        "doubt": " ".join(doubts(winner.layout, accelerator)),
        "fastest_inside_servers": _row(inside, wanted, accelerator) if inside else None,
    }
    if not json:
        show(answer, fp8=fp8)
    if run:
        answer["run"] = _run(winner, wanted, steps, show=not json)
    if json:
        typer.echo(json_format.dumps(answer))


def _run(winner: Plan, model: Transformer, steps: int, *, show: bool) -> list[dict]:
    """Train the winner, print its numbers beside the measured ones, and return them as plain data."""
    from shardlab.commands.plan_run import run_plan
    from shardlab.train.planned import table

    if show:
        typer.echo(f"\nThe first, trained here for {steps} steps:")
    try:
        rows = run_plan(winner, model, steps=steps, quiet=not show)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--run") from None
    if show:
        typer.echo("\n".join(["", "What the plan said, beside what was measured", *table(rows)]))
    return [row._asdict() for row in rows]


def _check_depth(model: Transformer) -> None:
    if model.layers > MOST_LAYERS:
        raise ValueError(f"{model.layers} layers are too many to deal to stages: use {MOST_LAYERS} or fewer")


def _schedules(names: list[str] | None) -> tuple:
    from typing import get_args

    from shardlab.costs.layout import ScheduleName

    unknown = sorted({*(names or [])} - {*get_args(ScheduleName)})
    if unknown:
        raise ValueError(f"there is no schedule {unknown[0]!r}: use {', '.join(get_args(ScheduleName))}")
    return tuple(names or get_args(ScheduleName))


def _played(winner: Plan, model: Transformer, gpu: Accelerator, *, fp8: bool, imbalance: float) -> float | None:
    """The step with its pipeline simulated slot by slot in the place of the formula; None without a pipeline."""
    from shardlab.costs.clock.setup import Setup
    from shardlab.costs.clock.step import pipeline_of
    from shardlab.costs.planning.planner import GRADIENT_BYTES
    from shardlab.pipeline_parallel.planned import played_seconds

    if winner.layout.pp == 1:
        return None
    setup = Setup(gpu, fp8=fp8, gradient_bytes=GRADIENT_BYTES, imbalance=imbalance)
    pipeline = pipeline_of(model, winner.layout, setup)
    return played_seconds(pipeline, winner.layout) + winner.step.data + winner.step.optimizer


def _inside_servers(
    model: Transformer, gpu: Accelerator, winner: Plan, search, *, fp8: bool, imbalance: float
) -> Plan | None:
    """The fastest plan whose tensor parallelism stays inside a server: the winner, also where tp was given, another
    one, or none that fits.
    """
    from shardlab.costs.planning.planner import NothingFits
    from shardlab.costs.planning.planner import plan as find_plans

    if winner.layout.tp <= gpu.per_node or "tp" in search.fixed:
        return winner
    inside, layout = replace(search, max_tp=gpu.per_node), winner.layout
    try:
        sequences = layout.sequences_per_step
        return find_plans(model, gpu, layout.world, sequences, search=inside, fp8=fp8, imbalance=imbalance, best=1)[0]
    except NothingFits:
        return None


# ---- as plain data ---------------------------------------------------------------------------------------------------


def _batch(batch: TokenBatch) -> dict:
    """What was asked for and what is planned, in tokens; change: planned / asked - 1."""
    return {
        "asked_tokens": batch.asked_tokens,
        "asked_sequences": batch.asked_tokens / batch.sequence,
        "sequence": batch.sequence,
        "sequences": batch.sequences,
        "tokens": batch.tokens,
        "change": batch.change,
    }


def _beside(winner: Plan, one: Neighbour) -> dict:
    """A neighbour; numbers are None where the layout cannot be."""
    from shardlab.costs.hardware import GIB

    return {
        "change": one.change,
        "fits": one.fits,
        "slower": one.plan.step.total / winner.step.total - 1 if one.plan else None,
        "step_seconds": one.plan.step.total if one.plan else None,
        "memory_gib": one.plan.memory.total / GIB if one.plan else None,
        "reason": one.reason,
    }


def _row(found: Plan, model: Transformer, accelerator: Accelerator) -> dict:
    """A plan; `waits` names the parts of a step that are not compute, from 0.5% on, largest first."""
    from shardlab.costs.flops import model_flops_per_token, utilisation
    from shardlab.costs.hardware import GIB

    parts = asdict(found.step)
    total = found.step.total
    tokens = found.layout.sequences_per_step * model.sequence
    mfu = utilisation(model_flops_per_token(model), tokens, total, found.layout.world, accelerator.bf16_flops)
    waits = sorted(((seconds, name) for name, seconds in parts.items() if name != "compute"), reverse=True)
    return {
        "layout": asdict(found.layout),
        "memory_gib": found.memory.total / GIB,
        "step_seconds": total,
        "mfu": mfu,
        "parts": parts,
        "waits": ", ".join(f"{name} {seconds / total:.0%}" for seconds, name in waits if seconds / total >= 0.005),
    }
