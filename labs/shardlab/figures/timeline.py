"""A schedule as a timeline: one lane per rank, one box per action; and the inside of an overlapped pair."""

from collections.abc import Sequence
from typing import NamedTuple, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from shardlab.figures.labels import wrap_titles
from shardlab.figures.palette import PALETTE, text_colour
from shardlab.figures.timeline_marks import (
    FILLS,
    HEIGHT,
    NO_MARKS,
    Marks,
    boxes_of,
    draw_box,
    draw_marks,
    end_with_optimizer,
    head_room,
    in_words,
    write_numbers,
)
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Kind, Overlap, Schedule, all_actions, num_microbatches, stages_of_rank
from shardlab.pipeline_parallel.simulation import Timeline, peak_activations, simulate

MEANINGS = {Kind.F: "F: forward", Kind.I: "I: gradient of the input", Kind.W: "W: gradient of the weights"}
MOST_BOXES = 3000


def draw_timeline(
    ax: Axes,
    schedule: Schedule,
    durations: Durations | None = None,
    *,
    measured: Timeline | None = None,
    name: str = "",
    until: float | None = None,
    marks: Marks = NO_MARKS,
) -> str:
    """Draw what each rank computes and when: simulated with `durations`, or as `measured` on real ranks.

    Boxes contain the microbatch number. Rank 0 is on top; stages other than the rank's first are hatched; an overlapped
    pair has a black frame. name: the schedule's name in the title. until: end of the time axis, to compare figures.
    Returns the sentence. Raises ValueError for too many boxes to see.
    """
    return draw_timelines([ax], [(name, measured or schedule)], durations, until=until, marks=marks)


def draw_timelines(
    axes: Sequence[Axes],
    rows: Sequence[tuple[str, Schedule | Timeline]],
    durations: Durations | None = None,
    *,
    until: float | None = None,
    marks: Marks = NO_MARKS,
) -> str:
    """Draw timelines below one another with a common time axis, so that the same length is the same time in each.

    rows: (name, schedule to simulate or measured timeline), one for each of `axes`, all in one figure.
    Returns one sentence for all. Raises ValueError like `draw_timeline`.
    """
    if not rows or len(rows) != len(axes):
        raise ValueError(
            f"{len(rows)} timelines on {len(axes)} axes: give at least one timeline, and one axes for each"
        )
    for _, row in rows:
        slots = sum(map(len, row.schedule if isinstance(row, Timeline) else row))
        if slots > MOST_BOXES:
            raise ValueError(f"{slots} slots are too many to see: draw at most {MOST_BOXES}, or use fewer ranks")
    durations = durations or Durations()
    timelines = [row if isinstance(row, Timeline) else simulate(row, durations) for _, row in rows]
    end = until or max(end_with_optimizer(timeline, marks) for timeline in timelines)
    headings = [_heading(timeline.schedule, name) for timeline, (name, _) in zip(timelines, rows, strict=True)]
    for ax, timeline, heading in zip(axes, timelines, headings, strict=True):
        _frame(ax, timeline, heading, end, marks)
    is_measured = [isinstance(row, Timeline) for _, row in rows]
    _below(axes, "time, measured" if all(is_measured) else "time", timelines, marks)

    for ax, timeline in zip(axes, timelines, strict=True):
        _fill(ax, timeline, durations, marks)
    told = [
        _told(timeline, heading, way) + in_words(timeline, marks)
        for timeline, heading, way in zip(timelines, headings, is_measured, strict=True)
    ]
    return f"In words: {'. '.join(told)}."


def _frame(ax: Axes, timeline: Timeline, heading: str, end: float, marks: Marks) -> None:
    schedule = timeline.schedule
    ax.set_xlim(0, end or 1)
    ax.set_ylim(len(schedule) - 0.5, -0.5 - head_room(marks))
    ax.set_yticks(range(len(schedule)), [f"rank {rank}" for rank in range(len(schedule))], fontsize=8)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=end >= 8))
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "top", "right"]].set_visible(False)
    ax.set_title(f"{heading}: {_finding(timeline, marks)}", loc="left", fontsize=10)


def _below(axes: Sequence[Axes], label: str, timelines: Sequence[Timeline], marks: Marks) -> None:
    """Label time below the last timeline only, draw one legend, then do the layout that determines box widths."""
    for ax in axes[:-1]:
        ax.tick_params(axis="x", labelbottom=False)
    axes[-1].set_xlabel(label, fontsize=8)
    figure = cast(Figure, axes[0].figure)
    handles: dict = _handles([timeline.schedule for timeline in timelines], marks)
    tuples = {tuple: HandlerTuple(ndivide=None, pad=0)}
    figure.legend(
        list(handles.values()), list(handles), handler_map=tuples, loc="outside lower left", ncols=3, fontsize=7,
        frameon=False,
    )  # fmt: skip
    wrap_titles(figure)
    figure.draw_without_rendering()


def _handles(schedules: Sequence[Schedule], marks: Marks) -> dict[str, Patch | tuple[Patch, ...]]:
    """Legend entries for what is actually drawn."""
    kinds = {action.kind for schedule in schedules for action in all_actions(schedule)}
    handles: dict[str, Patch | tuple[Patch, ...]] = {
        meaning: Patch(facecolor=FILLS[kind]) for kind, meaning in MEANINGS.items() if kind in kinds
    }
    if Kind.B in kinds:
        handles["B: full backward, gradients of input and weights together"] = (
            Patch(facecolor=FILLS[Kind.I]),
            Patch(facecolor=FILLS[Kind.W]),
        )
    if not marks.runs_on:
        handles["idle"] = Patch(facecolor=PALETTE["idle"])
    if any(len(stages_of_rank(schedule, rank)) > 1 for schedule in schedules for rank in range(len(schedule))):
        handles["the rank's other stages"] = Patch(facecolor="white", edgecolor="black", hatch="////", linewidth=0)
    if any(isinstance(slot, Overlap) for schedule in schedules for slots in schedule for slot in slots):
        handles["overlapped pair"] = Patch(facecolor="white", edgecolor="black", linewidth=1.6)
    if marks.trace is not None:
        handles[f"path of microbatch {marks.trace}"] = Patch(facecolor="white", edgecolor="black", linewidth=1.8)
    if marks.optimizer is not None:
        handles["optimizer step"] = Patch(facecolor=PALETTE["optimizer"])
    return handles


def _fill(ax: Axes, timeline: Timeline, durations: Durations, marks: Marks) -> None:
    boxes = []
    for rank, slots in enumerate(timeline.schedule):
        lane = Rectangle((0, rank - HEIGHT / 2), timeline.makespan, HEIGHT, facecolor=PALETTE["idle"], linewidth=0)
        ax.add_artist(lane)
        first_stage = stages_of_rank(timeline.schedule, rank)[0] if slots else 0
        for slot, begin, end in zip(slots, timeline.begins[rank], timeline.ends[rank], strict=True):
            for box in boxes_of(slot, begin, end, durations):
                draw_box(ax, rank, box, hatched=box.stage != first_stage)
                boxes.append((rank, box, box.stage != first_stage))
            if isinstance(slot, Overlap):
                size = (end - begin, HEIGHT)
                frame = Rectangle((begin, rank - HEIGHT / 2), *size, fill=False, edgecolor="black", linewidth=1.6)
                frame.set_zorder(5)
                ax.add_artist(frame)
    write_numbers(ax, boxes)
    draw_marks(ax, timeline, marks)


def _heading(schedule: Schedule, name: str) -> str:
    sizes = f"{len(schedule)} ranks, {num_microbatches(schedule)} microbatch"
    sizes += "" if num_microbatches(schedule) == 1 else "es"
    return f"{name}, {sizes}" if name else sizes


def _finding(timeline: Timeline, marks: Marks) -> str:
    if marks.runs_on:  # no rank waits for the others at the end, so its own span counts
        share = max(idle / (idle + busy or 1) for idle, busy in zip(timeline.span_idle, timeline.busy, strict=True))
        return "no rank idles within its own span" if round(share, 3) == 0 else f"{share:.0%} of a rank's own span idle"
    return "no rank idles" if round(timeline.bubble, 3) == 0 else f"{timeline.bubble:.0%} of the time idle"


def _told(timeline: Timeline, heading: str, is_measured: bool) -> str:
    idle, span_idle = (", ".join(f"{seconds:.3g}" for seconds in each) for each in (timeline.idle, timeline.span_idle))
    peaks = ", ".join(str(peak) for peak in peak_activations(timeline.schedule))
    time = f"{'measured' if is_measured else 'simulated'} time {timeline.makespan:.4g}"
    return (
        f"{heading}: {time}; idle by rank {idle}, of which within the rank's own span {span_idle}; "
        f"at most {peaks} activations are held"
    )


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
