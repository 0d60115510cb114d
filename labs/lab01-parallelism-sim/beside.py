"""Code shared by this lab's programs: the machine's calibration, a table of predictions and measurements, bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import typer
from shardlab.costs.clock.calibration import Calibration, default_file, read_calibration

CalibrationFile = Annotated[
    Path | None, typer.Option(help="File written by `shardlab calibrate`; without one, this machine is measured first.")
]


def _in_a_folder(path: Path | None) -> Path | None:
    """Reject a figure path that cannot be written before spending minutes on measurements."""
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}: create it or use another one")
    return path


FigureFile = Annotated[
    Path | None, typer.Option(help="Save the comparison as a figure.", dir_okay=False, callback=_in_a_folder)
]
Rounds = Annotated[int, typer.Option(min=1, help="Steps to measure, after two warm-up steps.")]
WARM_UP = 2


class Step(NamedTuple):
    """Seconds of a step: a rank's compute, and the extra time for its messages."""

    compute: float
    messages: float

    @property
    def total(self) -> float:
        return self.compute + self.messages


def calibration_for(ranks: int, path: Path | None) -> Calibration:
    """Calibration from a file, from this machine's default file, or measured now; covers this number of ranks."""
    try:
        if path is not None or default_file().exists():
            here = read_calibration(path)
            here.of_ranks(ranks)
            return here
        from shardlab.commands.calibration.measure import calibrate

        typer.echo("no calibration yet: measuring for about a minute (`shardlab calibrate` saves the result)", err=True)
        return calibrate([ranks] if ranks > 1 else [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--calibration") from None


def step_of(by_rank: Sequence[Sequence[tuple[float, float]]]) -> Step:
    """One step from rounds of (compute seconds, step seconds) by rank: the median over rounds of the slowest rank."""
    rounds = [[max(values) for values in zip(*ranks, strict=True)] for ranks in zip(*by_rank, strict=True)]
    compute, total = (median(one[place] for one in rounds) for place in (0, 1))
    return Step(compute, total - compute)


def show(predicted: Step, measured: Step) -> None:
    """Print three lines in milliseconds and the error of the prediction."""
    for name in ("compute", "messages", "total"):
        pair = [getattr(one, name) * 1e3 for one in (predicted, measured)]
        typer.echo(f"{'step, ms' if name == 'total' else name + ', ms':28}{pair[0]:12.2f}{pair[1]:12.2f}")
    typer.echo(f"{'error of the step':28}{predicted.total / measured.total - 1:+12.1%}")


def draw(steps: Mapping[str, Step], path: Path, title: str) -> str:
    """Draw a bar per step with compute and messages end to end; saves the figure and returns its description."""
    from shardlab.figures import PALETTE, new_axes
    from shardlab.figures.page import png
    from shardlab.figures.palette import text_colour

    drawing, ax = new_axes(7.0, 1.1 + 0.45 * len(steps))
    for place, step in enumerate(steps.values()):
        begin = 0.0
        for name, colour, seconds in (
            ("compute", PALETTE["forward"], step.compute),
            ("messages", PALETTE["communication"], step.messages),
        ):
            ax.barh(place, seconds * 1e3, left=begin * 1e3, height=0.6, color=colour)
            if seconds > 0.15 * step.total:
                middle = (begin + seconds / 2) * 1e3
                ax.text(middle, place, name, ha="center", va="center", fontsize=8, color=text_colour(colour))
            begin += seconds
        behind = {"textcoords": "offset points", "va": "center", "fontsize": 8}
        ax.annotate(f"{step.total * 1e3:.1f} ms", (begin * 1e3, place), (4, 0), **behind)
    ax.set_yticks(range(len(steps)), list(steps), fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, max(step.total for step in steps.values()) * 1150)
    ax.set_xlabel("milliseconds per step", fontsize=8)
    ax.tick_params(labelsize=8)
    ax.set_title(title, loc="left", fontsize=10)
    path.write_bytes(png(drawing))
    parts = [
        f"{label}: {step.compute * 1e3:.1f} ms of compute and {step.messages * 1e3:.1f} ms of messages"
        for label, step in steps.items()
    ]
    return f"In words: {title}. {'; '.join(parts)}."
