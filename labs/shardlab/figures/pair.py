"""Inside an overlapped pair: the forward of one microbatch and the backward of another, on two lanes."""

from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from shardlab.figures.palette import PALETTE, text_colour

# A backward goes through its layer from the end: its first all-to-all is the combine's, its last the dispatch's.
FORWARD = ("attention F", "dispatch F", "experts F", "combine F")
BACKWARD = ("combine B", "experts B", "dispatch B", "attention B")
TOGETHER = (
    *("attention F", "combine B", "experts B", "dispatch F"),
    *("experts F", "dispatch B", "attention B", "combine F"),
)
COMPUTING, LINK = 0, 1
SHARE = 0.5  # attention and experts each take this share of the computation
WAYS = 2.6  # vertical distance between the lanes of the two variants


class Piece(NamedTuple):
    """A piece of a layer: its name, its lane (0 is the device, 1 the link), begin and end in seconds."""

    name: str
    lane: int
    begin: float
    end: float


def pair_pieces(forward: float, backward: float, all_to_all: float, *, together: bool) -> list[Piece]:
    """When each piece of a forward and of another microbatch's backward runs, one after the other or as a pair.

    forward, backward: seconds of computation; all_to_all: seconds of each of the four. In a pair, a piece begins when
    its lane is free and the previous piece of its own microbatch is done. Raises ValueError for seconds below 0.
    """
    if min(forward, backward, all_to_all) < 0:
        raise ValueError(f"{forward}, {backward} and {all_to_all} are not all durations: give seconds, 0 or more")
    computing = {"F": forward, "B": backward}
    free, done, pieces = [0.0, 0.0], {"F": 0.0, "B": 0.0}, []
    for name in TOGETHER if together else (*FORWARD, *BACKWARD):
        part, half = name.split()
        lane = LINK if part in ("dispatch", "combine") else COMPUTING
        begin = max(free[lane], done[half]) if together else max(free)
        end = begin + (all_to_all if lane == LINK else SHARE * computing[half])
        free[lane] = done[half] = end
        pieces.append(Piece(name, lane, begin, end))
    return pieces


def draw_pair(ax: Axes, forward: float, backward: float, all_to_all: float) -> str:
    """Draw both variants below each other, with two lanes each; gray is an idle lane. Returns the sentence.

    Raises ValueError for seconds below 0.
    """
    ways = [pair_pieces(forward, backward, all_to_all, together=together) for together in (False, True)]
    lasts = [max(piece.end for piece in pieces) for pieces in ways]
    for way, (pieces, last) in enumerate(zip(ways, lasts, strict=True)):
        for lane in (COMPUTING, LINK):
            ax.add_patch(Rectangle((0, WAYS * way + lane), last, 0.9, facecolor=PALETTE["idle"], linewidth=0))
        for piece in pieces:
            if piece.end > piece.begin:
                _box(ax, piece, WAYS * way + piece.lane)
    ticks = [WAYS * way + lane + 0.45 for way in (0, 1) for lane in (COMPUTING, LINK)]
    ax.set_yticks(ticks, ["one after the other: device", "link", "as a pair: device", "link"], fontsize=8)
    ax.set(xlim=(0, max(lasts)), ylim=(WAYS + 2, -0.1), xlabel="seconds")
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "top", "right"]].set_visible(False)
    title = f"F and B of two microbatches: as a pair {lasts[1]:g} s instead of {lasts[0]:g} s"
    ax.set_title(title, loc="left", fontsize=10)
    return (
        f"In words: one after the other, a forward ({forward:g} s of computation), a backward ({backward:g} s) and "
        f"their four all-to-alls of {all_to_all:g} s take {lasts[0]:g} s; as a pair, in which each all-to-all overlaps "
        f"the computation of the other half, {lasts[1]:g} s."
    )


def _box(ax: Axes, piece: Piece, top: float) -> None:
    """A piece in the color of its activity; pieces of the backward have a black frame."""
    is_forward, width = piece.name.endswith("F"), piece.end - piece.begin
    fill = PALETTE["communication" if piece.lane == LINK else "forward" if is_forward else "backward"]
    edge = "white" if is_forward else "black"
    ax.add_patch(Rectangle((piece.begin, top), width, 0.9, facecolor=fill, edgecolor=edge, linewidth=0.8))
    ax.text(
        piece.begin + width / 2, top + 0.45, piece.name.replace(" ", "\n"), ha="center", va="center", fontsize=7,
        color=text_colour(fill),
    )  # fmt: skip
