"""The command `shardlab schedule`: build a schedule, print it and export it."""

from __future__ import annotations

import json as json_format
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardlab.meant import instead

if TYPE_CHECKING:
    from shardlab.pipeline_parallel.durations import Durations
    from shardlab.pipeline_parallel.schedule import Schedule

WITH_CHUNKS = "interleaved"  # the only schedule with a free number of chunks


def schedule(
    name: Annotated[
        str, typer.Argument(help="gpipe 1f1b interleaved zb-h1 zb-h2 zbv v-half v-min dualpipe dualpipe-v")
    ],
    ranks: Annotated[int, typer.Option("--ranks", help="P, ranks in the pipeline.")] = 4,
    microbatches: Annotated[int, typer.Option("--microbatches", help="M, microbatches in a step.")] = 8,
    virtual: Annotated[
        int | None, typer.Option("--virtual", help="Chunks per rank, only for interleaved [default: 2].")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Write torch's CSV of actions; - for standard output.")
    ] = None,
    trace: Annotated[Path | None, typer.Option("--trace", help="Write a trace for ui.perfetto.dev.")] = None,
    figure: Annotated[Path | None, typer.Option("--figure", help="Write the timeline as a PNG file.")] = None,
) -> None:
    """Show what each rank computes, and when, in a pipeline schedule, with its bubble and memory in common units.

    F = I = W = 1, B = 2 and a pair = 3 for all layers of a rank. With v chunks per rank, each takes and holds 1/v of
    that.
    Letters: F forward, I gradient of the input, W gradient of the weights, B both; 1F3 is microbatch 3 in stage 1.
    """
    from shardlab.pipeline_parallel.traces import to_csv, to_trace

    built = _build(name, ranks, microbatches, virtual)
    figures = figures_of(built)
    if csv is not None:
        _write(csv, to_csv(built), quiet=json)
    if trace is not None:
        from shardlab.pipeline_parallel.simulation import simulate

        _write(trace, to_trace(simulate(built, durations_of(built)), seconds_per_unit=1e-3), quiet=json)
    if figure is not None:
        _draw(figure, built, name)
    if json:
        typer.echo(json_format.dumps({"name": name, "microbatches": microbatches, **figures}))
    elif csv != Path("-"):
        _show(built, figures)


def chunks_of(built: Schedule) -> int:
    """Number of chunks in a rank's share of the model; DualPipe's second copy of it does not count."""
    from shardlab.pipeline_parallel.schedule import num_stages

    return num_stages(built) // len(built)


def durations_of(built: Schedule) -> Durations:
    """Durations in which a pass through all layers of a rank takes 1 unit, for any number of chunks."""
    from shardlab.pipeline_parallel.durations import Durations

    each = 1 / chunks_of(built)
    return Durations(forward=each, input_gradient=each, weight_gradient=each)


def figures_of(built: Schedule) -> dict:
    """Each rank's order in torch's notation, with makespan, idle time and peaks in units of one rank's share of the
    model.
    """
    from shardlab.pipeline_parallel.schedule import Kind
    from shardlab.pipeline_parallel.simulation import peak_activations, simulate

    timeline, chunks = simulate(built), chunks_of(built)
    return {
        "ranks": [[str(slot) for slot in slots] for slots in built],
        "chunks": chunks,
        "makespan": timeline.makespan / chunks,
        "idle": [seconds / chunks for seconds in timeline.idle],
        "span_idle": [seconds / chunks for seconds in timeline.span_idle],
        "peak_activations": [held / chunks for held in peak_activations(built)],
        "peak_activations_until_w": [held / chunks for held in peak_activations(built, until=Kind.W)],
    }


def _build(name: str, ranks: int, microbatches: int, virtual: int | None) -> Schedule:
    from shardlab.pipeline_parallel.builders import BUILDERS

    if name not in BUILDERS:
        raise typer.BadParameter(f"there is no schedule {name!r}: {instead(name, BUILDERS)}", param_hint="NAME")
    if virtual is not None and name != WITH_CHUNKS:
        reason = f"{name} has a fixed number of chunks: remove --virtual, or use the schedule {WITH_CHUNKS}"
        raise typer.BadParameter(reason, param_hint="--virtual")
    chunks = {} if virtual is None else {"num_chunks": virtual}
    hint = "--ranks, --microbatches, --virtual" if name == WITH_CHUNKS else "--ranks, --microbatches"
    try:
        return BUILDERS[name](ranks, microbatches, **chunks)
    except ValueError as error:
        raise typer.BadParameter(_in_our_names(str(error)), param_hint=hint) from None


def _in_our_names(sentence: str) -> str:
    """Replace function names in an error message with the names that the command accepts."""
    from shardlab.pipeline_parallel.builders import BUILDERS

    names = {builder.__name__: name for name, builder in BUILDERS.items()}
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), sentence)


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
    from shardlab.pipeline_parallel.builders import NAMES

    drawing, ax = new_axes(9.0, 1.3 + 0.33 * len(built))
    try:
        sentence = draw_timeline(ax, built, durations_of(built), name=NAMES[name])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--figure") from None
    path.write_bytes(png(drawing))
    typer.echo(sentence, err=True)


def _show(built: Schedule, figures: dict) -> None:
    """Print one line per rank, then the costs."""
    for rank, slots in enumerate(built):
        typer.echo(f"rank {rank}: {' '.join(str(slot) for slot in slots)}")
    idle, makespan, chunks = figures["idle"], figures["makespan"], figures["chunks"]
    typer.echo(f"\nmakespan {makespan:g}; a rank is idle for up to {max(idle):g}, {max(idle) / makespan:.1%} of it")
    typer.echo(f"idle between a rank's first and last slot: {_listed(figures['span_idle'])}")
    typer.echo(f"peak activations, freed after I: {_listed(figures['peak_activations'])}")
    typer.echo(f"peak activations, freed after W: {_listed(figures['peak_activations_until_w'])}")
    part = f"; each of its {chunks} chunks takes and holds 1/{chunks}" if chunks > 1 else ""
    typer.echo(f"unit: all layers of a rank, F = I = W = 1, B = 2{part}")


def _listed(numbers: list[float]) -> str:
    return " ".join(f"{number:g}" for number in numbers)
