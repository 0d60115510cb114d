"""The command `shardlab schedule`: build a schedule, print it, and take it elsewhere."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shardlab.pipeline_parallel.schedule import Schedule


def schedule(
    name: Annotated[
        str, typer.Argument(help="gpipe 1f1b interleaved zb-h1 zb-h2 zbv v-half v-min dualpipe dualpipe-v")
    ],
    ranks: Annotated[int, typer.Option("--ranks", help="P, ranks in the pipeline.")] = 4,
    microbatches: Annotated[int, typer.Option("--microbatches", help="M, microbatches in a step.")] = 8,
    virtual: Annotated[int, typer.Option("--virtual", help="Chunks on a rank, for interleaved.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write torch's CSV of actions; - prints it.")] = None,
    trace: Annotated[Path | None, typer.Option("--trace", help="Write a trace for ui.perfetto.dev.")] = None,
    figure: Annotated[Path | None, typer.Option("--figure", help="Write the timeline as a PNG file.")] = None,
) -> None:
    """Show who computes what, when, in a pipeline schedule: bubble and memory at F = I = W = 1, B = 2, a pair 3.

    The letters: F forward, I gradient of the input, W of the weights, B both; 1F3 is microbatch 3 in stage 1.
    """
    from shardlab.pipeline_parallel.traces import to_csv, to_trace

    built = _build(name, ranks, microbatches, virtual)
    figures = figures_of(built)
    if csv is not None:
        _write(csv, to_csv(built), quiet=json)
    if trace is not None:
        from shardlab.pipeline_parallel.simulation import simulate

        _write(trace, to_trace(simulate(built), seconds_per_unit=1e-3), quiet=json)
    if figure is not None:
        _draw(figure, built, name)
    if json:
        typer.echo(json_format.dumps({"name": name, "microbatches": microbatches, **figures}))
    elif csv != Path("-"):
        _show(built, figures)


def figures_of(built: Schedule) -> dict:
    """The orders by rank in torch's grammar, makespan, idle and peaks, at unit costs."""
    from shardlab.pipeline_parallel.simulation import peak_activations, simulate

    timeline = simulate(built)
    return {
        "ranks": [[str(slot) for slot in slots] for slots in built],
        "makespan": timeline.makespan,
        "idle": timeline.idle,
        "span_idle": timeline.span_idle,
        "peak_activations": peak_activations(built),
    }


def _build(name: str, ranks: int, microbatches: int, virtual: int) -> Schedule:
    from shardlab.pipeline_parallel.builders import BUILDERS

    if name not in BUILDERS:
        raise typer.BadParameter(f"there is no schedule {name!r}: use one of {', '.join(BUILDERS)}", param_hint="NAME")
    chunks = {"num_chunks": virtual} if name == "interleaved" else {}
    try:
        return BUILDERS[name](ranks, microbatches, **chunks)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--ranks, --microbatches, --virtual") from None


def _write(path: Path, text: str, *, quiet: bool) -> None:
    if path == Path("-"):
        typer.echo(text, nl=False)
        return
    path.write_text(text)
    if not quiet:
        typer.echo(f"wrote {path}")


def _draw(path: Path, built: Schedule, name: str) -> None:
    from shardlab.figures import draw_timeline, new_axes
    from shardlab.figures.page import png

    drawing, ax = new_axes(9.0, 1.3 + 0.33 * len(built))
    try:
        sentence = draw_timeline(ax, built, name=name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--figure") from None
    path.write_bytes(png(drawing))
    typer.echo(sentence, err=True)


def _show(built: Schedule, figures: dict) -> None:
    """One line per rank, then what it costs."""
    for rank, slots in enumerate(built):
        typer.echo(f"rank {rank}: {' '.join(str(slot) for slot in slots)}")
    idle, makespan = figures["idle"], figures["makespan"]
    typer.echo(f"\nmakespan {makespan:g}; a rank idles up to {max(idle):g}, {max(idle) / makespan:.1%} of it")
    typer.echo(f"idle within a rank's own span: {' '.join(f'{seconds:g}' for seconds in figures['span_idle'])}")
    typer.echo(f"activations at most: {' '.join(map(str, figures['peak_activations']))}")
