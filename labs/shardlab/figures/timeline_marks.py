"""Parts of a timeline: the boxes in a lane, phases, optimizer steps, a microbatch's path, and what a slot waits for."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from shardlab.figures.palette import PALETTE, text_colour
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Kind, Slot, actions_of, inputs_of, num_stages, result_of
from shardlab.pipeline_parallel.simulation import Timeline

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


Place = tuple[int, int]  # rank, and index of the slot on it
HEAD_ROOM = 0.75  # lanes above rank 0 for the names of the phases


@dataclass(frozen=True)
class Marks:
    """A choice of marks for a timeline.

    phases: lines where each rank's first backward begins and its last forward ends. trace: a microbatch whose path
    from rank to rank is drawn. optimizer: seconds of its step; each rank first waits for all others, unless `runs_on`.
    slot: (rank, index), framed together with the slots that it waits for.
    """

    phases: bool = False
    trace: int | None = None
    optimizer: float | None = None
    runs_on: bool = False
    slot: Place | None = None


NO_MARKS = Marks()


def head_room(marks: Marks) -> float:
    """Lanes to leave free above rank 0."""
    return HEAD_ROOM if marks.phases else 0.0


def end_with_optimizer(timeline: Timeline, marks: Marks) -> float:
    """When the last rank ends, including its optimizer step."""
    return timeline.makespan + (marks.optimizer or 0.0)


def phases_of(timeline: Timeline) -> list[tuple[float, float]]:
    """For each rank, the end of its warm-up (the beginning of its first backward) and the end of its last forward."""
    found = []
    for slots, begins, ends in zip(timeline.schedule, timeline.begins, timeline.ends, strict=True):
        kinds = [{action.kind for action in actions_of(slot)} for slot in slots]
        backwards = [begin for begin, kind in zip(begins, kinds, strict=True) if kind & {Kind.I, Kind.B}]
        forwards = [end for end, kind in zip(ends, kinds, strict=True) if Kind.F in kind]
        found.append((min(backwards, default=0.0), max(forwards, default=0.0)))
    return found


def way_of(timeline: Timeline, microbatch: int) -> list[tuple[int, float, float]]:
    """(rank, begin, end) of a microbatch's forwards, then of its input gradients, in order of time."""
    way = []
    for rank, slots in enumerate(timeline.schedule):
        for slot, begin, end in zip(slots, timeline.begins[rank], timeline.ends[rank], strict=True):
            if any(action.microbatch == microbatch and action.kind is not Kind.W for action in actions_of(slot)):
                way.append((rank, begin, end))
    return sorted(way, key=lambda stop: (stop[1], stop[2]))


def waits_for(timeline: Timeline, slot: Place) -> list[Place]:
    """The slots that must end before this one: those of its inputs, and the previous one on its rank."""
    rank, place = slot
    schedule, stages = timeline.schedule, num_stages(timeline.schedule)
    if not (0 <= rank < len(schedule) and 0 <= place < len(schedule[rank])):
        raise ValueError(f"no slot {place} on rank {rank}: use ranks 0 to {len(schedule) - 1} and an index in its list")
    needed = {need for action in actions_of(schedule[rank][place]) for need in inputs_of(action, stages)}
    found = [
        (other, at)
        for other, slots in enumerate(schedule)
        for at, one in enumerate(slots)
        if needed & {result_of(action) for action in actions_of(one)} or (other, at) == (rank, place - 1)
    ]
    return sorted(found, key=lambda one: timeline.ends[one[0]][one[1]])


def in_words(timeline: Timeline, marks: Marks) -> str:
    """A description of the marks, to append to a sentence."""
    words = ""
    if marks.phases:
        warm, last = zip(*phases_of(timeline), strict=True)
        words += f"; first backwards begin at {_listed(warm)}, last forwards end at {_listed(last)}"
    if marks.optimizer is not None:
        begins = {f"{begin:.4g}" for begin in _optimizer_begins(timeline, marks)}
        when = "as soon as it has ended" if marks.runs_on else f"at {min(begins)}, when all have ended"
        words += f"; each rank's optimizer steps {when}"
    if marks.trace is not None and (way := way_of(timeline, marks.trace)):
        stops = ", ".join(f"rank {rank} at {begin:.4g}" for rank, begin, _ in way)
        words += f"; microbatch {marks.trace} is on {stops}"
    if marks.slot is not None:
        rank, place = marks.slot
        awaited = [
            f"{timeline.schedule[r][p]} (rank {r}, ends at {timeline.ends[r][p]:.4g})"
            for r, p in waits_for(timeline, marks.slot)
        ]
        begin = timeline.begins[rank][place]
        words += f"; {timeline.schedule[rank][place]} on rank {rank} begins at {begin:.4g} and waits for "
        words += ", ".join(awaited) or "nothing"
    return words


def _listed(times: tuple[float, ...]) -> str:
    return ", ".join(f"{time:.4g}" for time in times)


def draw_marks(ax: Axes, timeline: Timeline, marks: Marks) -> None:
    """Draw the marks over the boxes."""
    if marks.optimizer is not None:
        _draw_optimizer(ax, timeline, marks)
    if marks.phases:
        _draw_phases(ax, timeline)
    if marks.trace is not None:
        _draw_way(ax, way_of(timeline, marks.trace))
    if marks.slot is not None:
        _draw_waiting(ax, timeline, marks.slot)


def _optimizer_begins(timeline: Timeline, marks: Marks) -> list[float]:
    ends = [max(ends, default=0.0) for ends in timeline.ends]
    return ends if marks.runs_on else [max(ends)] * len(ends)


def _draw_optimizer(ax: Axes, timeline: Timeline, marks: Marks) -> None:
    end = end_with_optimizer(timeline, marks)
    for rank, begin in enumerate(_optimizer_begins(timeline, marks)):
        low, style = rank - HEIGHT / 2, {"linewidth": 0.8, "edgecolor": "white", "zorder": 2}
        if marks.runs_on:  # its next step follows immediately, as this one followed the previous step
            ax.add_artist(Rectangle((begin, low), end - begin, HEIGHT, facecolor="white", zorder=1.5))
            first = min(timeline.begins[rank], default=0.0)
            ax.add_artist(Rectangle((0, low), first, HEIGHT, facecolor="white", zorder=1.5))
        fill = PALETTE["optimizer"]
        ax.add_artist(Rectangle((begin, low), marks.optimizer or 0.0, HEIGHT, facecolor=fill, **style))


def _draw_phases(ax: Axes, timeline: Timeline) -> None:
    """Two staircase lines through the lanes, and the names of the phases between them above rank 0."""
    found = phases_of(timeline)
    for times in zip(*found, strict=True):
        xs = [time for time in times for _ in (0, 1)]
        ys = [rank + side for rank in range(len(times)) for side in (-0.5, 0.5)]
        ys[0] -= HEAD_ROOM - 0.1
        ax.plot(xs, ys, color="white", linewidth=3, zorder=5.5)
        ax.plot(xs, ys, color="black", linewidth=1.3, linestyle=(0, (4, 1.5)), zorder=6)
    first, last = found[0]
    ends = (0.0, min(first, last)), (first, last), (max(first, last), timeline.makespan)
    for name, (begin, end) in zip(("warm-up", "steady", "cool-down"), ends, strict=True):
        if end > begin:
            middle = ((begin + end) / 2, -0.5 - HEAD_ROOM / 2)
            ax.text(*middle, name, ha="center", va="center", fontsize=SMALLEST_TEXT + 1)


def _draw_way(ax: Axes, way: list[tuple[int, float, float]]) -> None:
    """A frame around each stop, and an arrow from the end of one to the beginning of the next."""
    for rank, begin, end in way:
        _frame(ax, rank, begin, end, 1.8)
    for (rank, _, end), (after, begin, _) in pairwise(way):
        if rank != after:
            side = HEIGHT / 2 if after > rank else -HEIGHT / 2
            _arrow(ax, (end, rank + side * 0.6), (begin, after - side * 0.6))


def _draw_waiting(ax: Axes, timeline: Timeline, slot: Place) -> None:
    """Frame the slot, draw dashed frames and arrows for the slots it waits for, and fade everything else."""
    awaited, end = waits_for(timeline, slot), timeline.makespan
    for rank, slots in enumerate(timeline.schedule):
        for place in range(len(slots)):
            if (rank, place) not in (slot, *awaited):
                begin, stop = timeline.begins[rank][place], timeline.ends[rank][place]
                pale = Rectangle((begin, rank - 0.42), stop - begin, 0.84, facecolor="white", alpha=0.65, linewidth=0)
                pale.set_zorder(5.2)
                ax.add_artist(pale)
    rank, place = slot
    begin = timeline.begins[rank][place]
    _frame(ax, rank, begin, min(timeline.ends[rank][place], end), 2.4)
    for other, at in awaited:
        _frame(ax, other, timeline.begins[other][at], timeline.ends[other][at], 1.8, "--")
        if other != rank:
            side = HEIGHT / 2 if rank > other else -HEIGHT / 2
            _arrow(ax, (timeline.ends[other][at], other + side * 0.6), (begin, rank - side * 0.6))


def _frame(ax: Axes, rank: int, begin: float, end: float, width: float, dashes: str = "-") -> None:
    place, size = (begin, rank - HEIGHT / 2), (end - begin, HEIGHT)
    ax.add_artist(Rectangle(place, *size, fill=False, edgecolor="black", linewidth=width, linestyle=dashes, zorder=6))


def _arrow(ax: Axes, tail: tuple[float, float], head: tuple[float, float]) -> None:
    for colour, width, order in (("white", 3.2, 6.1), ("black", 1.2, 6.2)):
        style = {"arrowstyle": "-|>", "mutation_scale": 8, "color": colour, "linewidth": width, "zorder": order}
        ax.add_artist(FancyArrowPatch(tail, head, shrinkA=0, shrinkB=0, **style))
