"""The commands `shardlab plan`, `memory` and `predict`: formulas only, no ranks and no torch."""

from __future__ import annotations

import csv
import json as json_format
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shardlab.costs.planning.neighbours import Neighbour
    from shardlab.costs.planning.planner import Plan

Model = Annotated[str, typer.Option("--model", help="A name (a wrong one lists them), or a JSON file of sizes.")]
Gpu = Annotated[str, typer.Option("--gpu", help="v100 a100-40 a100 h100 h100-96 h800 h200 b200 gb200 laptop here FILE")]
NAMED = {"output": "logits and ends", "gathered": "gathered by ZeRO-3"}  # parts of a rank's memory
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def plan(
    model: Model = "llama3-8b",
    gpu: Gpu = "h100",
    gpus: Annotated[int, typer.Option("--gpus", min=1, max=1_000_000, help="How many of them.")] = 64,
    tokens_per_batch: Annotated[
        int, typer.Option("--tokens-per-batch", min=1, max=10**12, help="Tokens of a step, over all GPUs.")
    ] = 4_194_304,
    best: Annotated[int, typer.Option("--best", min=1, help="How many plans to show.")] = 5,
    pipeline_zero: Annotated[
        int, typer.Option("--pipeline-zero", min=0, max=2, help="Highest ZeRO stage to try beside a pipeline.")
    ] = 1,
    fp8: Annotated[bool, typer.Option("--fp8", help="Matrix products in fp8.")] = False,
    json: Json = False,
) -> None:
    """Find the layouts of a model on a cluster that fit, the fastest first, and why the first one wins.

    Times are predictions; `python -m shardlab.costs.validation` shows how wrong they are on published runs.
    """
    from shardlab.costs.hardware import find_accelerator
    from shardlab.costs.model_file import load_model
    from shardlab.costs.planning.claims import crossing_doubt
    from shardlab.costs.planning.neighbours import neighbours
    from shardlab.costs.planning.pieces import best_stages
    from shardlab.costs.planning.planner import Search
    from shardlab.costs.planning.planner import plan as find_plans

    try:
        wanted, accelerator = load_model(model), find_accelerator(gpu)
        sequences = max(1, round(tokens_per_batch / wanted.sequence))
        search = Search(zero_with_pipeline=pipeline_zero)
        found = find_plans(wanted, accelerator, gpus, sequences, search=search, fp8=fp8, best=best)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    rows = [_row(one, wanted, accelerator) for one in found]
    around = neighbours(wanted, accelerator, found[0], fp8=fp8)
    stages = best_stages(wanted, found[0].layout, accelerator, fp8=fp8)
    if json:
        answer = {"model": wanted.name, "gpu": accelerator.name, "gpus": gpus, "sequences": sequences, "plans": rows}
        answer |= {"neighbours": [_beside(found[0], one) for one in around], "layers_of_stages": stages.sizes}
        answer["doubt"] = crossing_doubt(found[0].layout, accelerator)
        typer.echo(json_format.dumps(answer))
        return
    typer.echo(f"{wanted.name} on {gpus} {accelerator.name}, {sequences} sequences of {wanted.sequence} a step")
    typer.echo("  tp  pp  dp  cp  ep  v  b     m zero recompute schedule       GiB  seconds   MFU   waits for")
    for row in rows:
        one = row["layout"]
        typer.echo(
            f"{one['tp']:4}{one['pp']:4}{one['dp']:4}{one['cp']:4}{one['ep']:4}{one['virtual']:3}{one['microbatch']:3}"
            f"{one['num_microbatches']:6}{one['zero']:5} {one['recompute']:9} {one['schedule']:11}"
            f"{row['memory_gib']:7.1f}{row['step_seconds']:9.3f}{row['mfu']:6.1%}   {row['waits']}"
        )
    if len(stages.sizes) > 1:
        named = "chunks" if found[0].layout.virtual > 1 else "stages"
        typer.echo(
            f"\nLayers of its {len(stages.sizes)} {named}, the slowest as quick as can be: {_counted(stages.sizes)}"
        )
    typer.echo("\nWhy the first wins: its neighbours, on as many GPUs and with the same batch")
    for one in (_beside(found[0], beside) for beside in around):
        costs = f"{one['slower']:+7.1%}{one['memory_gib']:8.1f} GiB" if one["slower"] is not None else " " * 19
        typer.echo(f"  {one['change']:23}{costs}   {one['reason']}")
    if doubt := crossing_doubt(found[0].layout, accelerator):
        typer.echo(f"\nCheck before you trust it: {doubt}")


def _beside(winner: Plan, one: Neighbour) -> dict:
    """A neighbour as plain data; numbers are None where the layout cannot be."""
    from shardlab.costs.hardware import GIB

    return {
        "change": one.change,
        "fits": one.fits,
        "slower": one.plan.step.total / winner.step.total - 1 if one.plan else None,
        "step_seconds": one.plan.step.total if one.plan else None,
        "memory_gib": one.plan.memory.total / GIB if one.plan else None,
        "reason": one.reason,
    }


def _counted(sizes: Sequence[int]) -> str:
    """(8, 8, 8, 6) -> "3 of 8, 1 of 6"."""
    return ", ".join(f"{len(list(run))} of {size}" for size, run in groupby(sizes))


def _row(found: Plan, model, accelerator) -> dict:
    """A plan as plain data; `waits` names the parts of a step that are not compute, largest first."""
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
        "waits": ", ".join(f"{name} {seconds / total:.0%}" for seconds, name in waits[:3] if seconds / total >= 0.005),
    }


def memory(
    model: Model = "llama3-8b",
    gpu: Gpu = "h100",
    tp: Annotated[int, typer.Option("--tp", help="Tensor parallel size.")] = 1,
    pp: Annotated[int, typer.Option("--pp", help="Pipeline parallel size.")] = 1,
    dp: Annotated[int, typer.Option("--dp", help="Data parallel size.")] = 1,
    cp: Annotated[int, typer.Option("--cp", help="Context parallel size.")] = 1,
    ep: Annotated[int, typer.Option("--ep", help="Expert parallel size.")] = 1,
    zero: Annotated[int, typer.Option("--zero", help="ZeRO stage, 0 to 3.")] = 0,
    microbatch: Annotated[int, typer.Option("--microbatch", help="Sequences of a microbatch.")] = 1,
    microbatches: Annotated[int, typer.Option("--microbatches", help="Microbatches of a step.")] = 1,
    recompute: Annotated[str, typer.Option("--recompute", help="none, selective or full.")] = "none",
    json: Json = False,
) -> None:
    """Show what the fullest rank of a layout holds, in GiB: the first stage, or the last with its logits."""
    from shardlab.costs.hardware import GIB, find_accelerator
    from shardlab.costs.layout import Layout, check_layout
    from shardlab.costs.memory import peak_memory
    from shardlab.costs.model_file import load_model

    try:
        wanted, accelerator = load_model(model), find_accelerator(gpu)
        layout = Layout(
            tp=tp,
            pp=pp,
            dp=dp,
            cp=cp,
            ep=ep,
            zero=zero,
            microbatch=microbatch,
            num_microbatches=microbatches,
            recompute=recompute,  # type: ignore[arg-type]
            sequence_parallel=tp > 1,
        )
        check_layout(wanted, layout)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    held = peak_memory(wanted, layout, gradient_bytes=4)
    parts = {
        "parameters": held.states.parameters,
        "gradients, fp32": held.states.gradients,
        "optimizer": held.states.optimizer,
        **{NAMED.get(name, name): value for name, value in vars(held).items() if name != "states"},
        "total": held.total,
    }
    if json:
        typer.echo(json_format.dumps({name: round(value) for name, value in parts.items()}))
        return
    for name, value in parts.items():
        typer.echo(f"{name:20}{value / GIB:9.2f} GiB")
    free = accelerator.memory_bytes - held.total
    verdict = f"leaves {free / GIB:.2f} GiB" if free >= 0 else f"does not fit: {-free / GIB:.2f} GiB too much"
    typer.echo(f"{accelerator.name} has {accelerator.memory_bytes / GIB:.0f} GiB: {verdict}")


def predict(
    runs: Annotated[Path, typer.Option("--runs", help="CSV with the columns of costs/data/published_runs.csv.")],
    out: Annotated[Path, typer.Option("--out", help="The CSV to write: the same rows, three columns more.")],
) -> None:
    """Predict the step time and memory of each run of a CSV file; reads no column that was reported.

    Adds predicted_step_s, predicted_mem_GB and not_predicted, the reason where there is no prediction.
    """
    from shardlab.costs.validation.predictions import ADDED, predicted_rows
    from shardlab.costs.validation.published import read_rows

    try:
        rows = read_rows(runs)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise typer.BadParameter(f"{runs} cannot be read: {error}", param_hint="--runs") from None
    if not rows:
        raise typer.BadParameter(f"{runs} has no rows: give a header and at least one run", param_hint="--runs")
    done = predicted_rows(rows)
    columns = [*(name for name in rows[0] if name is not None), *(name for name in ADDED if name not in rows[0])]
    try:
        with out.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(done)
    except OSError as error:
        raise typer.BadParameter(f"{out} cannot be written: {error.strerror}", param_hint="--out") from None
    refused = [row for row in done if row["not_predicted"]]
    typer.echo(f"wrote {out}: {len(done) - len(refused)} of {len(done)} runs predicted")
    for row in refused[:10]:
        typer.echo(f"  {row.get('id') or '(no id)'}: {row['not_predicted']}")
