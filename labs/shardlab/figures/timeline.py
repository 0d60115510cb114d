"""A pipeline schedule on a clock: one lane per rank, one box per action; what stays grey is the bubble."""

from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from shardlab.figures.palette import PALETTE, text_colour
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Action, Kind, Overlap, Schedule, Slot, num_microbatches, stages_of_rank
from shardlab.pipeline_parallel.simulation import Timeline, peak_activations, simulate

FILLS = {Kind.F: PALETTE["forward"], Kind.I: PALETTE["backward"], Kind.W: PALETTE["weights"]}
MEANINGS = {Kind.F: "F: forward", Kind.I: "I: gradient of the input", Kind.W: "W: gradient of the weights"}
MOST_BOXES = 3000
SMALLEST_TEXT = 7  # points
LAYOUT_GAIN = 1.15  # the constrained layout makes the axes wider than they are while boxes are drawn


class Box(NamedTuple):
    """One coloured box of a lane: half of a full backward is a box of its own."""

    kind: Kind
    stage: int
    microbatch: int
    begin: float
    end: float
    is_named: bool = True  # a full backward carries its number once, on its first half


def draw_timeline(
    ax: Axes,
    schedule: Schedule,
    durations: Durations | None = None,
    *,
    measured: Timeline | None = None,
    name: str = "",
) -> str:
    """Draw when each rank computes what: by simulation with `durations`, or as `measured` on real ranks.

    Boxes carry the microbatch. Rank 0 is on top; a stage that is not the rank's first is hatched; an overlapped pair
    has a black frame. name: of the schedule, for the title. Returns the sentence.
    Raises ValueError for more boxes than can be seen.
    """
    if sum(map(len, schedule)) > MOST_BOXES:
        raise ValueError(f"{sum(map(len, schedule))} slots cannot be seen: draw {MOST_BOXES} or fewer, take less ranks")
    durations = durations or Durations()
    timeline = measured or simulate(schedule, durations)

    for rank, slots in enumerate(schedule):
        ax.add_patch(Rectangle((0, rank - 0.4), timeline.makespan, 0.8, facecolor=PALETTE["idle"], linewidth=0))
        first_stage = stages_of_rank(schedule, rank)[0] if slots else 0
        for slot, begin, end in zip(slots, timeline.begins[rank], timeline.ends[rank], strict=True):
            for box in boxes_of(slot, begin, end, durations):
                _draw_box(ax, rank, box, hatched=box.stage != first_stage, makespan=timeline.makespan)
            if isinstance(slot, Overlap):
                frame = Rectangle((begin, rank - 0.4), end - begin, 0.8, fill=False, edgecolor="black", linewidth=1.6)
                frame.set_zorder(5)
                ax.add_patch(frame)
    _finish(ax, schedule, timeline, measured is not None, name)
    return _sentence(schedule, timeline, measured is not None, name)


def boxes_of(slot: Slot, begin: float, end: float, durations: Durations) -> list[Box]:
    """The boxes of one slot: its parts in the proportions of their durations, side by side from `begin` to `end`."""
    parts = [part for action in _actions(slot) for part in _parts(action)]
    seconds = [durations.of_action(part.kind, part.stage) for part in parts]
    scale = (end - begin) / sum(seconds) if sum(seconds) else 0.0
    boxes = []
    for part, cost in zip(parts, seconds, strict=True):
        is_named = not (boxes and part.kind is Kind.W)
        boxes.append(Box(part.kind, part.stage, part.microbatch, begin, begin + cost * scale, is_named))
        begin += cost * scale
    return boxes


def _actions(slot: Slot) -> list[Action]:
    return [slot.forward, slot.backward] if isinstance(slot, Overlap) else [slot]


def _parts(action: Action) -> list[Action]:
    """A full backward is its two halves."""
    kinds = (Kind.I, Kind.W) if action.kind is Kind.B else (action.kind,)
    return [Action(kind, action.stage, action.microbatch) for kind in kinds]


def _draw_box(ax: Axes, rank: int, box: Box, *, hatched: bool, makespan: float) -> None:
    fill, width = FILLS[box.kind], box.end - box.begin
    ink = text_colour(fill)
    lane = Rectangle((box.begin, rank - 0.4), width, 0.8, facecolor=fill, edgecolor="white", linewidth=0.6)
    drawn: list[Artist] = [ax.add_patch(lane)]
    if hatched:
        mark = Rectangle((box.begin, rank + 0.22), width, 0.18, fill=False, edgecolor=ink, hatch="////", linewidth=0)
        drawn.append(ax.add_patch(mark))
    points = ax.get_window_extent().width / ax.figure.dpi * 72 * LAYOUT_GAIN * width / makespan
    if box.is_named and points >= 0.6 * SMALLEST_TEXT * len(str(box.microbatch)):
        x, y = box.begin + width / 2, rank - (0.06 if hatched else 0)
        text = ax.text(x, y, str(box.microbatch), ha="center", va="center", fontsize=SMALLEST_TEXT, color=ink)
        drawn.append(text)
    for order, artist in enumerate(drawn, 2):
        artist.set_zorder(order)
        artist.set_in_layout(False)  # hundreds of boxes: the layout need not measure each


def _finish(ax: Axes, schedule: Schedule, timeline: Timeline, is_measured: bool, name: str) -> None:
    ax.set_xlim(0, timeline.makespan)
    ax.set_ylim(len(schedule) - 0.5, -0.5)
    ax.set_yticks(range(len(schedule)), [f"rank {rank}" for rank in range(len(schedule))], fontsize=8)
    ax.xaxis.set_major_locator(MaxNLocator(8))
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "top", "right"]].set_visible(False)
    ax.set_xlabel("time, measured" if is_measured else "time", fontsize=8)
    ax.set_title(f"{_heading(schedule, name)}: {_finding(timeline)}", loc="left", fontsize=10)
    handles = [Patch(facecolor=FILLS[kind], label=meaning) for kind, meaning in MEANINGS.items()]
    handles.append(Patch(facecolor=PALETTE["idle"], label="idle"))
    if any(len(stages_of_rank(schedule, rank)) > 1 for rank in range(len(schedule))):
        handles.append(
            Patch(facecolor="white", edgecolor="black", hatch="////", linewidth=0, label="the rank's other stages")
        )
    if any(isinstance(slot, Overlap) for slots in schedule for slot in slots):
        handles.append(Patch(facecolor="white", edgecolor="black", linewidth=1.6, label="overlapped pair"))
    ax.figure.legend(handles=handles, loc="outside lower left", ncols=3, fontsize=7, frameon=False)


def _heading(schedule: Schedule, name: str) -> str:
    sizes = f"{len(schedule)} ranks, {num_microbatches(schedule)} microbatches"
    return f"{name}, {sizes}" if name else sizes


def _finding(timeline: Timeline) -> str:
    return "no rank idles" if round(timeline.bubble, 3) == 0 else f"{timeline.bubble:.0%} of the time idle"


def _sentence(schedule: Schedule, timeline: Timeline, is_measured: bool, name: str) -> str:
    idle, span_idle = (", ".join(f"{seconds:.3g}" for seconds in each) for each in (timeline.idle, timeline.span_idle))
    peaks = ", ".join(str(peak) for peak in peak_activations(schedule))
    time = f"{'measured' if is_measured else 'simulated'} time {timeline.makespan:.4g}"
    return (
        f"In words: {_heading(schedule, name)}: {time}; idle by rank {idle}, of it within the rank's own span "
        f"{span_idle}; at most {peaks} activations are held."
    )
