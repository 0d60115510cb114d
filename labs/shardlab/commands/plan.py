"""The command `shardlab plan`: evaluates formulas, without ranks or torch; `--here --run` also trains the plan."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from shardlab.costs.models.model import Transformer
    from shardlab.costs.planning.planner import Plan
    from shardlab.train.planned import Beside

GPU_NAMES = "v100 a100-40 a100 h100 h100-96 h800 h200 b200 b300 gb200 gb300 laptop here FILE"
Model = Annotated[str, typer.Option("--model", help="A model name (an unknown name prints the list) or a JSON file.")]
Gpu = Annotated[str, typer.Option("--gpu", help=GPU_NAMES)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
MOST_GPUS = 1_000_000
RUN_SCHEDULES = ("1f1b", "gpipe", "zero-bubble")  # supported by the course's trainer
RUN_RECOMPUTE = ("none", "selective", "full")
MOST_LAYERS = 1000  # as in DeepNet, the deepest transformer; cutting stages takes quadratic time


def _degree(kind: str) -> Any:
    """The option that fixes a degree of parallelism instead of searching for it."""
    return typer.Option(min=1, max=MOST_GPUS, help=f"Use exactly this many {kind}-parallel ranks [default: search].")


def plan(
    model: Model = "llama3-8b",
    gpu: Gpu = "h100",
    gpus: Annotated[int, typer.Option("--gpus", min=1, max=MOST_GPUS, help="Number of GPUs.")] = 64,
    tokens_per_batch: Annotated[
        int, typer.Option("--tokens-per-batch", min=1, max=10**12, help="Tokens per step, over all GPUs.")
    ] = 4_194_304,
    sequence: Annotated[
        int | None,
        typer.Option("--sequence", min=1, max=2**30, help="Tokens per sequence [default: the model's own length]."),
    ] = None,
    tp: Annotated[int | None, _degree("tensor")] = None,
    pp: Annotated[int | None, _degree("pipeline")] = None,
    cp: Annotated[int | None, _degree("context")] = None,
    dp: Annotated[int | None, _degree("data")] = None,
    ep: Annotated[int | None, _degree("expert")] = None,
    exact_batch: Annotated[
        bool,
        typer.Option(
            "--exact-batch",
            help="Keep this batch exactly; by default it may change by up to 5% to divide evenly over the GPUs.",
        ),
    ] = False,
    best: Annotated[int, typer.Option("--best", min=1, help="How many plans to show.")] = 5,
    pipeline_zero: Annotated[
        int, typer.Option("--pipeline-zero", min=0, max=2, help="Highest ZeRO stage to try with a pipeline.")
    ] = 2,
    schedule: Annotated[
        list[str] | None, typer.Option("--schedule", help="1f1b, gpipe, zero-bubble, zbv or dualpipe; repeatable.")
    ] = None,
    recompute: Annotated[
        list[str] | None,
        typer.Option("--recompute", help="none, selective, norms or full (all layers or k of n); repeatable."),
    ] = None,
    max_tp: Annotated[
        int | None,
        typer.Option(
            "--max-tp", min=1, max=MOST_GPUS, help="Maximum tensor-parallel size [default: the GPUs of a server]."
        ),
    ] = None,
    network: Annotated[
        float | None, typer.Option("--network", help="Network Gb/s per GPU [default: the usual for this GPU].")
    ] = None,
    fp8: Annotated[bool, typer.Option("--fp8", help="Compute matmuls in fp8.")] = False,
    imbalance: Annotated[
        float, typer.Option("--imbalance", help="Tokens on the busiest expert rank divided by the mean; 1: even.")
    ] = 1.0,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=1, max=10**18, help="Tokens in the whole run; adds days, GPU-hours and goodput."),
    ] = None,
    price: Annotated[
        float | None, typer.Option("--price", help="Price per GPU-hour, in your currency; needs --tokens.")
    ] = None,
    export: Annotated[
        str | None, typer.Option("--export", help="megatron or torchtitan: print the best plan as its flags.")
    ] = None,
    here: Annotated[bool, typer.Option("--here", help="Same as --gpu here: this machine, as calibrated.")] = False,
    run: Annotated[
        bool, typer.Option("--run", help="Train the best plan here and compare prediction and measurement.")
    ] = False,
    steps: Annotated[int, typer.Option("--steps", min=6, max=1000, help="Steps to train with --run.")] = 10,
    json: Json = False,
) -> None:
    """Find the layouts of a model that fit on a cluster, fastest first, and explain why the first one wins.

    Times are predictions. The error is the range that contains 9 of 10 published runs
    (`python -m shardlab.costs.validation`) or, for this CPU, 9 of 10 training runs on a CPU. Tensor parallelism
    stays inside a server unless you pass --max-tp or --tp.
    """
    from typing import get_args

    from shardlab.commands.plan_answer import Task, batch_of, chosen, show
    from shardlab.commands.plan_flags import flags
    from shardlab.costs.hardware import with_network
    from shardlab.costs.layout import Recompute, ScheduleName
    from shardlab.costs.machines import as_trained, find_accelerator
    from shardlab.costs.models.model import with_sequence
    from shardlab.costs.models.zoo import load_model
    from shardlab.costs.planning.planner import Search

    _check_together(tokens, price, run, export)
    try:
        wanted, accelerator = load_model(model), find_accelerator("here" if here or run else gpu, ranks=gpus)
        wanted = as_trained(wanted, accelerator)
        _check_depth(wanted)
        if sequence is not None:
            wanted = with_sequence(wanted, sequence)
        if network is not None:
            accelerator = with_network(accelerator, network)
        batch = batch_of(tokens_per_batch, wanted.sequence, gpus, exact=exact_batch)
        degrees = {"tp": tp, "pp": pp, "cp": cp, "dp": dp, "ep": ep}
        search = Search(
            max_tp=max_tp or accelerator.per_node,
            zero_with_pipeline=pipeline_zero,
            schedules=chosen("schedule", schedule, RUN_SCHEDULES if run else get_args(ScheduleName)),
            recompute=chosen("recompute", recompute, RUN_RECOMPUTE if run else get_args(Recompute)),
            some_layers=not run,
            fixed={axis: degree for axis, degree in degrees.items() if degree is not None},
        )
        task = Task(wanted, accelerator, gpus, batch, search, fp8, imbalance)
        found = task.plans(best)
        answer = task.answer(found)
        if tokens is not None:
            answer["run_of_tokens"] = task.long_run(found[0], tokens, price)
        if export is not None:
            answer["flags"] = flags(export, wanted, found[0], fp8=fp8)
    except (ValueError, RecursionError) as error:  # RecursionError: a deeply nested JSON file
        raise typer.BadParameter(str(error)) from None
    if not json:
        show(answer, fp8=fp8)
    if run:
        answer["run"] = _run(found[0], wanted, steps, show=not json)
    if json:
        typer.echo(json_format.dumps(answer))


def _run(winner: Plan, model: Transformer, steps: int, *, show: bool) -> list[dict]:
    """Train the winner, print predicted and measured numbers, and return them as plain data."""
    from shardlab.train.planned import table

    if show:
        typer.echo(f"\nTraining the best plan here for {steps} steps:")
    try:
        rows = run_plan(winner, model, steps=steps, quiet=not show)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--run") from None
    if show:
        typer.echo("\n".join(["", "Predicted and measured", *table(rows)]))
    return [row._asdict() for row in rows]


def _check_depth(model: Transformer) -> None:
    if model.layers > MOST_LAYERS:
        raise ValueError(f"{model.layers} layers are too many to divide into stages: use {MOST_LAYERS} or fewer")


def _check_together(tokens: int | None, price: float | None, run: bool, export: str | None) -> None:
    """Raise BadParameter for conflicting options."""
    if price is not None and tokens is None:
        raise typer.BadParameter("the price of a run needs its length: add --tokens", param_hint="--price")
    if run and export is not None:
        raise typer.BadParameter("--run uses the course's trainer: remove --export", param_hint="--export")


MOST_RANKS = 64


def run_plan(plan: Plan, model: Transformer, *, steps: int, quiet: bool) -> list[Beside]:
    """Train a plan on ranks of this machine for a few steps; return predictions and measurements.

    Raises ValueError if the plan cannot run here or its ranks fail.
    """
    from shardlab.train.planned import beside, recipe_of, to_toml

    if plan.layout.world > MOST_RANKS:
        raise ValueError(f"{plan.layout.world} ranks on one machine: use --gpus {MOST_RANKS} or fewer")
    with TemporaryDirectory(prefix="shardlab-") as name:
        folder = Path(name)
        recipe = recipe_of(model, plan.layout, steps=steps, folder=folder)
        (folder / "plan.toml").write_text(to_toml(recipe))
        from shardlab.train import program

        code = program.start(recipe, [str(folder / "plan.toml"), *(["--quiet"] if quiet else [])])
        if code != program.DONE:
            raise ValueError(f"the plan's ranks exited with code {code}: {program.MEANING.get(code, 'see above')}")
        return beside(plan, model, folder)
