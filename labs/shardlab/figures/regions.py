"""Which part of each tensor in a block a rank holds: all of it, a shard, or a partial sum."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from shardlab.figures.palette import PALETTE

STATES = {
    "whole": "whole on every rank",
    "positions": "split by positions",
    "columns": "split by columns",
    "partial": "a partial sum of the whole shape",
}
MOST_RANKS = 4


class Region(NamedTuple):
    """A tensor in a block: its name, a state of STATES, and the communication that produces it, if any."""

    name: str
    state: str
    arrives_by: str = ""


def draw_regions(ax: Axes, tensors: Sequence[Region], *, ranks: int = 2, title: str) -> str:
    """Draw a column per tensor and a row per rank; in a tile, positions run down and hidden dimensions across.

    The part that a rank holds is filled; the rest is gray. Returns the sentence. Raises ValueError for no tensors, an
    unknown state, or more than four ranks.
    """
    if unknown := {tensor.state for tensor in tensors} - set(STATES):
        raise ValueError(f"a tensor cannot be {', '.join(sorted(unknown))}: use {', '.join(STATES)}")
    if not tensors or not 1 <= ranks <= MOST_RANKS:
        raise ValueError(
            f"{len(tensors)} tensors on {ranks} ranks cannot be drawn: give one or more on 1 to {MOST_RANKS}"
        )
    for place, tensor in enumerate(tensors):
        for rank in range(ranks):
            _draw_tile(ax, place, rank, tensor.state, ranks)
        _write(ax, place + 0.35, -0.12, f"{tensor.name}\n{tensor.state}")
        if tensor.arrives_by:
            _draw_arrival(ax, place, tensor.arrives_by, ranks)
    for rank in range(ranks):
        ax.text(-0.12, rank + 0.35, f"rank {rank}", ha="right", va="center", fontsize=8)
    ax.set_xlim(-0.7, len(tensors))
    ax.set_ylim(ranks + 0.1, -0.75)
    ax.set_axis_off()
    ax.set_title(title, loc="left", fontsize=10)
    return _in_words(tensors, title)


def _draw_tile(ax: Axes, place: int, rank: int, state: str, ranks: int) -> None:
    """One rank's part of one tensor, in a tile of 0.7 by 0.7."""
    ax.add_patch(Rectangle((place, rank), 0.7, 0.7, facecolor=PALETTE["idle"], edgecolor="black", linewidth=0.6))
    left, top, width, height = 0.0, 0.0, 0.7, 0.7
    if state == "positions":
        top, height = 0.7 * rank / ranks, 0.7 / ranks
    if state == "columns":
        left, width = 0.7 * rank / ranks, 0.7 / ranks
    hatch = "++" if state == "partial" else ""
    fill = Rectangle(
        (place + left, rank + top), width, height, facecolor=PALETTE["forward"], hatch=hatch, linewidth=0.6
    )
    fill.set_edgecolor("black")
    ax.add_patch(fill)


def _draw_arrival(ax: Axes, place: int, text: str, ranks: int) -> None:
    """A bar before the tensor, across all ranks, with the name of the communication."""
    colour = PALETTE["communication"]
    ax.add_patch(Rectangle((place - 0.2, 0), 0.1, ranks - 0.3, facecolor=colour, edgecolor="none"))
    ax.text(place - 0.15, ranks - 0.22, text, ha="center", va="top", fontsize=8, color=colour)


def _write(ax: Axes, x: float, y: float, text: str) -> None:
    ax.text(x, y, text, ha="center", va="bottom", fontsize=8)


def _in_words(tensors: Sequence[Region], title: str) -> str:
    told = []
    for tensor in tensors:
        arrives = f"after the {tensor.arrives_by} " if tensor.arrives_by else ""
        told.append(f"{arrives}{tensor.name} is {STATES[tensor.state]}")
    return f"In words: {title}. {'; '.join(told)}.".replace("\n", " ")
