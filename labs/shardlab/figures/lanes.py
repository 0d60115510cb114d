"""The boxes in one lane of a timeline, and which of them have room for their number."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from shardlab.figures.palette import PALETTE, text_colour
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Kind, Slot, actions_of

FILLS = {Kind.F: PALETTE["forward"], Kind.I: PALETTE["backward"], Kind.W: PALETTE["weights"]}
SMALLEST_TEXT = 7  # points
DIGIT = 0.64 * SMALLEST_TEXT  # the width of a digit of DejaVu Sans, in points
AIR = 1.2  # points left free around a box's number, so that neighboring numbers do not run together
HEIGHT, MARK = 0.8, 0.18  # of a box and of the hatched mark at its bottom, in lanes


class Box(NamedTuple):
    """The box of one action. A full backward is one box; `seam` is where its input gradient ends."""

    kind: Kind
    stage: int
    microbatch: int
    begin: float
    end: float
    seam: float | None = None


def boxes_of(slot: Slot, begin: float, end: float, durations: Durations) -> list[Box]:
    """The boxes of one slot, from begin to end; a pair has two side by side, in proportion to their durations."""
    actions = actions_of(slot)
    seconds = [durations.of_action(action.kind, action.stage) for action in actions]
    scale = (end - begin) / sum(seconds) if sum(seconds) else 0.0
    boxes = []
    for action, cost in zip(actions, seconds, strict=True):
        inputs = durations.of_action(Kind.I, action.stage) * scale
        seam = begin + inputs if action.kind is Kind.B else None
        boxes.append(Box(action.kind, action.stage, action.microbatch, begin, begin + cost * scale, seam))
        begin += cost * scale
    return boxes


def draw_box(ax: Axes, rank: int, box: Box, *, hatched: bool) -> None:
    """Draw one box in the lane of `rank`, without its number. A full backward has both colors and no line between."""
    low, width = rank - HEIGHT / 2, box.end - box.begin
    edge = {"edgecolor": "white", "linewidth": 0.8}
    if box.seam is None:
        _add(ax, Rectangle((box.begin, low), width, HEIGHT, facecolor=FILLS[box.kind], **edge))
    else:
        for kind, begin, end in ((Kind.I, box.begin, box.seam), (Kind.W, box.seam, box.end)):
            _add(ax, Rectangle((begin, low), end - begin, HEIGHT, facecolor=FILLS[kind], linewidth=0))
        _add(ax, Rectangle((box.begin, low), width, HEIGHT, fill=False, **edge))
    if hatched:
        mark = Rectangle((box.begin, rank + HEIGHT / 2 - MARK), width, MARK, fill=False, hatch="////", linewidth=0)
        mark.set_edgecolor("black")
        _add(ax, mark)


def _add(ax: Axes, artist: Artist) -> None:
    """Add a box without updating axis limits and layout, because there are hundreds of boxes."""
    artist.set_in_layout(False)
    artist.set_zorder(2)
    ax.add_artist(artist)


def write_numbers(ax: Axes, boxes: Sequence[tuple[int, Box, bool]]) -> None:
    """Write each box's microbatch if it fits, upright or rotated; write none if most do not fit.

    boxes: (rank, box, whether it is hatched). The figure's layout must be done, because it determines a box's width.
    """
    pixels = abs(ax.transData.transform((1, 1)) - ax.transData.transform((0, 0)))
    scale = (pixels[0] * 72 / ax.figure.dpi, pixels[1] * 72 / ax.figure.dpi)
    turns = [_turn(scale, box, hatched=hatched) for _, box, hatched in boxes]
    if sum(turn is None for turn in turns) > len(turns) / 2:
        return
    for (rank, box, hatched), turn in zip(boxes, turns, strict=True):
        if turn is not None:
            fill = FILLS[Kind.I if box.kind is Kind.B else box.kind]
            y = rank - (MARK / 2 if hatched else 0)
            style = {"ha": "center", "va": "center", "rotation": turn, "fontsize": SMALLEST_TEXT}
            text = ax.text((box.begin + box.end) / 2, y, str(box.microbatch), color=text_colour(fill), **style)
            text.set_in_layout(False)
            text.set_zorder(3)


def _turn(scale: tuple[float, float], box: Box, *, hatched: bool) -> float | None:
    """0 if the number fits upright, 90 if it fits only when rotated, else None. scale: points per unit in x and y."""
    wide = (box.end - box.begin) * scale[0]
    high = (HEIGHT - (MARK if hatched else 0)) * scale[1]
    length = DIGIT * len(str(box.microbatch))
    if length + AIR <= wide and high >= SMALLEST_TEXT:
        return 0.0
    return 90.0 if wide >= SMALLEST_TEXT + AIR / 2 and length + AIR / 2 <= high else None
