"""What the programs of this lab share: this machine's calibration, a table of predictions beside measurements, bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import typer
from shardlab.costs.clock.calibration import Calibration, default_file, read_calibration

CalibrationFile = Annotated[
    Path | None, typer.Option(help="What `shardlab calibrate` wrote; without a file this machine is measured first.")
]


def _in_a_folder(path: Path | None) -> Path | None:
    """Refuse, before minutes of measuring, a picture that could not be written."""
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}: make it, or name another")
    return path


FigureFile = Annotated[
    Path | None, typer.Option(help="Write the comparison as a picture.", dir_okay=False, callback=_in_a_folder)
]
Rounds = Annotated[int, typer.Option(min=1, help="Steps that count; two more warm up.")]
WARM_UP = 2


class Step(NamedTuple):
    """Seconds of a step: what a rank computes, and how much longer the step lasts for its messages."""

    compute: float
    messages: float

    @property
    def total(self) -> float:
        return self.compute + self.messages


def calibration_for(ranks: int, path: Path | None) -> Calibration:
    """The calibration of a file, of this machine's usual file, or measured now; it knows so many ranks."""
    try:
        if path is not None or default_file().exists():
            here = read_calibration(path)
            here.of_ranks(ranks)
            return here
        from shardlab.commands.calibration.measure import calibrate

        typer.echo("no calibration yet: measuring, a minute (`shardlab calibrate` keeps it)", err=True)
        return calibrate([ranks] if ranks > 1 else [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--calibration") from None


def step_of(by_rank: Sequence[Sequence[tuple[float, float]]]) -> Step:
    """Rounds of (seconds of compute, of the whole step) by rank as one step: that of the slowest rank, the median."""
    rounds = [[max(values) for values in zip(*ranks, strict=True)] for ranks in zip(*by_rank, strict=True)]
    compute, total = (median(one[place] for one in rounds) for place in (0, 1))
    return Step(compute, total - compute)


def show(predicted: Step, measured: Step) -> None:
    """Three lines in milliseconds, and how far the prediction is off."""
    for name in ("compute", "messages", "total"):
        pair = [getattr(one, name) * 1e3 for one in (predicted, measured)]
        typer.echo(f"{'step, ms' if name == 'total' else name + ', ms':28}{pair[0]:12.2f}{pair[1]:12.2f}")
    typer.echo(f"{'error of the step':28}{predicted.total / measured.total - 1:+12.1%}")


def draw(steps: Mapping[str, Step], path: Path, title: str) -> str:
    """A bar for each step, compute and messages end to end; writes the picture and returns it in words."""
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
    ax.set_xlabel("milliseconds of a step", fontsize=8)
    ax.tick_params(labelsize=8)
    ax.set_title(title, loc="left", fontsize=10)
    path.write_bytes(png(drawing))
    parts = [
        f"{label}: {step.compute * 1e3:.1f} ms of compute and {step.messages * 1e3:.1f} ms of messages"
        for label, step in steps.items()
    ]
    return f"In words: {title}. {'; '.join(parts)}."
