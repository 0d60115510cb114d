"""A transformer block under tensor parallelism: which tensors are whole, split or partial sums, on which rank.

The states are those of arXiv 1909.08053, figures 3 and 4: f comes before a split pair of matrices, g after it. In the
backward, gradients of split tensors are split; f's copy has a partial gradient, and a partial sum has a whole one.
"""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from shardlab.figures.palette import PALETTE, text_colour

MEANING = {"R": "whole on every rank", "S": "a part on each rank", "P": "a partial sum on each rank"}


class Point(NamedTuple):
    """A tensor in the block: its name, its state, its gradient's state, and the operator before it."""

    name: str
    state: str
    gradient: str
    operator: str = ""


def _pair(entry: str, *inside: str) -> list[Point]:
    """From one residual to the next: a norm, f, split tensors, a partial sum, g, and the addition."""
    *split, partial = inside
    points = [Point(entry, "R", "R"), Point("copy", "R", "P", "f")]
    points += [Point(name, "S", "S") for name in split]
    return [*points, Point(partial, "P", "R"), Point("sum", "R", "R", "g"), Point("+", "R", "R")]


POINTS = [Point("x", "R", "R"), *_pair("norm", "q, k, v", "heads", "out"), *_pair("norm", "up", "gelu", "down")]
LAST_STEP = 2 * len(POINTS) - 1


def draw_block(ax: Axes, step: int = len(POINTS) - 1, *, num_ranks: int = 2) -> str:
    """Draw what every rank holds up to `step`: 0 to 14 go forward, 15 to 29 backward. Returns the sentence.

    R is a full box, S the rank's own columns of a box, P a hatched box. Raises ValueError for a step that does not
    exist, or more ranks than can be drawn.
    """
    if not 0 <= step <= LAST_STEP or not 1 <= num_ranks <= 4:
        raise ValueError(f"step {step} with {num_ranks} ranks: draw steps 0 to {LAST_STEP}, with 1 to 4 ranks")
    is_forward = step < len(POINTS)
    now = step if is_forward else LAST_STEP - step
    for place, point in enumerate(POINTS):
        reached = place <= now if is_forward else place >= now
        for rank in range(num_ranks):
            _draw_tensor(ax, (place, rank), point, num_ranks, is_forward=is_forward, reached=reached)
        if point.operator:  # drawn before its tensor, so the backward passes it after the tensor
            passed = reached if is_forward else place > now
            _draw_operator(ax, place, point.operator, num_ranks, is_forward=is_forward, passed=passed)
    ax.add_patch(Rectangle((now - 0.43, -0.43), 0.86, num_ranks - 0.14, fill=False, linewidth=2.2, zorder=5))
    _finish(ax, num_ranks, _title(step, now, is_forward=is_forward))
    _legend(ax, PALETTE["forward" if is_forward else "backward"])
    return _sentence(now, is_forward=is_forward)


def _draw_tensor(
    ax: Axes, place: tuple[int, int], point: Point, num_ranks: int, *, is_forward: bool, reached: bool
) -> None:
    """One rank's box: empty before its step, then filled with the part of the tensor that the rank has."""
    x, rank = place
    ax.add_patch(Rectangle((x - 0.36, rank - 0.36), 0.72, 0.72, facecolor="white", edgecolor=PALETTE["parameters"]))
    if not reached:
        return
    state = point.state if is_forward else point.gradient
    fill = PALETTE["forward" if is_forward else "backward"]
    low, high = (rank / num_ranks, (rank + 1) / num_ranks) if state == "S" else (0.0, 1.0)
    slice_ = Rectangle((x - 0.36 + 0.72 * low, rank - 0.36), 0.72 * (high - low), 0.72, facecolor=fill)
    if state == "P":
        slice_.set(hatch="///", edgecolor="white", linewidth=0)
    ax.add_patch(slice_)
    box = {"facecolor": fill if state == "R" else "white", "edgecolor": "none", "pad": 1.2}
    colour = text_colour(fill) if state == "R" else "black"
    ax.text(x, rank, state, ha="center", va="center", fontsize=9, color=colour, bbox=box, zorder=4)


def _draw_operator(ax: Axes, place: int, name: str, num_ranks: int, *, is_forward: bool, passed: bool) -> None:
    """Between two boxes: a line where the operator will all-reduce, a bar once it has; dotted where it does nothing."""
    sends, x = (name == "g") == is_forward, place - 0.5
    colour = PALETTE["communication"] if sends and passed else PALETTE["parameters"]
    width, dashes = (4.0 if passed else 1.5, "-") if sends else (1.0, ":")
    ax.plot([x, x], [-0.5, num_ranks - 0.5], color=colour, zorder=3, linewidth=width, linestyle=dashes)
    ax.text(x, num_ranks - 0.42, name, ha="center", va="top", fontsize=10, color=colour, style="italic")


def _finish(ax: Axes, num_ranks: int, title: str) -> None:
    ax.set_xlim(-0.6, len(POINTS) - 0.4)
    ax.set_ylim(num_ranks + 0.15, -0.6)
    ax.set_xticks(range(len(POINTS)), [point.name for point in POINTS], fontsize=8)
    ax.set_yticks(range(num_ranks), [f"rank {rank}" for rank in range(num_ranks)], fontsize=8)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title, loc="left", fontsize=10, pad=10)


def _legend(ax: Axes, fill: str) -> None:
    """Name the three kinds of boxes and the two kinds of operators."""
    edge = PALETTE["parameters"]
    full, empty = Patch(facecolor=fill, edgecolor=edge), Patch(facecolor="white", edgecolor=edge)
    handles = {
        f"R: {MEANING['R']}": full,
        f"S: {MEANING['S']}": (full, empty),
        f"P: {MEANING['P']}": Patch(facecolor=fill, edgecolor="white", hatch="////", linewidth=0),
        "all-reduce": Line2D([], [], color=PALETTE["communication"], linewidth=4),
        "sends nothing": Line2D([], [], color=edge, linewidth=1, linestyle=":"),
    }
    style = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "ncols": 5, "columnspacing": 1.3, "frameon": False}
    handlers = {tuple: HandlerTuple(ndivide=None, pad=0)}
    ax.legend(list(handles.values()), list(handles), handler_map=handlers, fontsize=8, borderaxespad=0.2, **style)


def _all_reduces(now: int, *, is_forward: bool) -> int:
    """How many all-reduces are done so far: g's in the forward, f's in the backward."""
    if is_forward:
        return sum(point.operator == "g" for point in POINTS[: now + 1])
    return sum(point.operator == "f" for point in POINTS[now + 1 :])


def _title(step: int, now: int, *, is_forward: bool) -> str:
    count = _all_reduces(now, is_forward=is_forward)
    way = "Forward" if is_forward else "Backward, gradients"
    return f"Step {step} of {LAST_STEP} · {way}: {count} all-reduce{'' if count == 1 else 's'} of b·s·h so far"


def _sentence(now: int, *, is_forward: bool) -> str:
    point = POINTS[now]
    what, state = ("", point.state) if is_forward else ("the gradient of ", point.gradient)
    way = "forward pass" if is_forward else "backward pass"
    trail = [one.state for one in POINTS[: now + 1]] if is_forward else [one.gradient for one in POINTS[:now:-1]]
    trail = trail if is_forward else [*trail, point.gradient]
    count = _all_reduces(now, is_forward=is_forward)
    return (
        f"In words: in the {way}, {what}{point.name!r} is {MEANING[state]} ({state}); from the beginning of the {way} "
        f"the states are {' '.join(trail)}, with {count} all-reduce{'' if count == 1 else 's'}."
    )


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
