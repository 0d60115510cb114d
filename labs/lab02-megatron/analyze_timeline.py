"""How each rank spends a step: computing, exposed communication and waiting.

Reads two kinds of traces: ours (`shardlab schedule --trace`, run_pp_experiment.py --trace), which contain all ranks,
and those of torch.profiler (run_tp_experiment.py --profile), with one file per rank.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import typer
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from shardlab.figures.page import new_axes, png
from shardlab.figures.palette import PALETTE
from shardlab.figures.timeline import draw_timeline
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Action, Kind, Overlap, num_stages, parse_slot
from shardlab.pipeline_parallel.simulation import Timeline, simulate

Spans = list[tuple[float, float]]  # (begin, end) in microseconds, sorted, not overlapping


@dataclass
class Lane:
    """One rank's activity: spans of computing and of communication, which may overlap, and our own slots by name."""

    computing: Spans = field(default_factory=list)
    communicating: Spans = field(default_factory=list)
    slots: list[tuple[float, float, str]] = field(default_factory=list)

    @property
    def exposed(self) -> Spans:
        """Communication while this rank computes nothing."""
        return without(self.communicating, self.computing)


def read_traces(files: Iterable[Path]) -> dict[int, Lane]:
    """The lanes of all ranks. Raises ValueError for a file that is not such a trace and for a duplicate rank."""
    lanes: dict[int, Lane] = {}
    for file in files:
        try:
            trace = json.loads(file.read_text(encoding="utf-8"))
            events = boxes_of(trace)
        except (OSError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ValueError(f"{file} is not a trace in Chrome's JSON format: {reason}") from None
        found = of_profiler(trace, events) if "schemaVersion" in trace else of_ours(events)
        if twice := found.keys() & lanes.keys():
            raise ValueError(f"{file} has rank {min(twice)}, which is also in another file: give each rank's file once")
        lanes |= found
    if not any(seconds(lane.computing) for lane in lanes.values()):
        raise ValueError("there is no computation in these files: give traces of shardlab or of torch.profiler")
    return dict(sorted(lanes.items()))


def boxes_of(trace: Any) -> list[dict]:
    """The boxes of a trace. Raises ValueError if it has no list of them, or one lacks a position, length or name."""
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list):
        raise ValueError("it has no list 'traceEvents'")
    boxes = [event for event in events if isinstance(event, dict) and event.get("ph") == "X"]
    for box in boxes:
        numbers = [box.get("ts"), box.get("dur")]
        if not all(isinstance(one, int | float) and math.isfinite(one) for one in numbers) or box["dur"] < 0:
            raise ValueError(f"a box has ts = {numbers[0]!r} and dur = {numbers[1]!r}: both must be microseconds")
        if not isinstance(box.get("name"), str) or not isinstance(box.get("tid", 0), int | str):
            raise ValueError(f"a box on track {box.get('tid')!r} has the invalid name {box.get('name')!r}")
    return boxes


def of_ours(events: list[dict]) -> dict[int, Lane]:
    """Read our own trace: a track is a rank, a box is a slot."""
    lanes: dict[int, Lane] = defaultdict(Lane)
    for event in sorted(events, key=lambda event: event["ts"]):
        if not isinstance(event.get("tid"), int):
            raise ValueError(f"the track {event.get('tid')!r} is not a rank: give traces of shardlab or torch.profiler")
        lanes[event["tid"]].slots.append((event["ts"], event["ts"] + event["dur"], event["name"]))
    for lane in lanes.values():
        lane.computing = union((begin, end) for begin, end, _ in lane.slots)
    return dict(lanes)


def of_profiler(trace: dict, events: list[dict]) -> dict[int, Lane]:
    """One rank: its GPU's kernels if there are any, otherwise the operators of its CPU threads.

    gloo's and NCCL's own spans are communication, from the start to the last byte, including waiting for other ranks.
    """
    kernels = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    base = trace["baseTimeNanoseconds"] / 1e3 if isinstance(trace.get("baseTimeNanoseconds"), int) else 0.0
    lane = Lane()
    for event in kernels or events:
        span = (base + event["ts"], base + event["ts"] + event["dur"])
        name = event["name"].lower()
        if name.startswith(("nccl", "gloo:")):
            lane.communicating.append(span)
        elif kernels or name.startswith("aten::"):
            lane.computing.append(span)
    lane.computing, lane.communicating = union(lane.computing), union(lane.communicating)
    told = trace.get("distributedInfo")
    return {told.get("rank", 0) if isinstance(told, dict) else 0: lane}


def union(spans: Iterable[tuple[float, float]]) -> Spans:
    """Merge overlapping spans."""
    joined: Spans = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def without(spans: Spans, others: Spans) -> Spans:
    """The parts of `spans` that are in none of `others`."""
    left = []
    for begin, end in spans:
        for other_begin, other_end in others:
            if begin < other_begin < end:
                left.append((begin, other_begin))
            if other_begin < end and other_end > begin:
                begin = max(begin, other_end)  # noqa: PLW2901 - the rest of this span
        if begin < end:
            left.append((begin, end))
    return left


def seconds(spans: Spans) -> float:
    """Total duration in seconds."""
    return sum(end - begin for begin, end in spans) / 1e6


def frame_of(lanes: dict[int, Lane]) -> tuple[float, float]:
    """The first begin and the last end over all ranks, in microseconds."""
    spans = [span for lane in lanes.values() for span in (*lane.computing, *lane.communicating)]
    return min(begin for begin, _ in spans), max(end for _, end in spans)


def measured(lanes: dict[int, Lane]) -> Timeline | None:
    """Our own trace as a timeline in milliseconds; None if the trace is not ours."""
    if not all(lane.slots for lane in lanes.values()):
        return None
    first, _ = frame_of(lanes)
    return Timeline(
        [[parse_slot(name) for _, _, name in lane.slots] for lane in lanes.values()],
        [[(begin - first) / 1e3 for begin, _, _ in lane.slots] for lane in lanes.values()],
        [[(end - first) / 1e3 for _, end, _ in lane.slots] for lane in lanes.values()],
    )


def predicted(timeline: Timeline) -> Timeline:
    """Simulate the same schedule with each pass as long as its mean in the timeline."""
    took: dict[tuple, list[float]] = defaultdict(list)
    for lane in zip(timeline.schedule, timeline.begins, timeline.ends, strict=True):
        for slot, begin, end in zip(*lane, strict=True):
            took[(slot.kind, slot.stage) if isinstance(slot, Action) else (Overlap,)].append(end - begin)

    def of(*kinds: Kind) -> list[float]:
        by_stage = ([took.get((kind, stage), []) for kind in kinds] for stage in range(num_stages(timeline.schedule)))
        return [mean(next(filter(None, found), [0.0])) for found in by_stage]

    pairs = took.get((Overlap,))
    durations = Durations(of(Kind.F), of(Kind.I, Kind.B), of(Kind.W), overlapped=mean(pairs) if pairs else None)
    return simulate(timeline.schedule, durations)


def draw_lanes(ax: Axes, lanes: dict[int, Lane]) -> str:
    """Draw a lane per rank: computing, communication below it, gray if nothing computes. Returns the description."""
    first, last = frame_of(lanes)
    for row, lane in enumerate(lanes.values()):
        ax.barh(row, (last - first) / 1e3, height=0.8, color=PALETTE["idle"])
        for spans, middle, height, colour in (
            (lane.computing, row, 0.8, PALETTE["forward"]),
            (lane.communicating, row + 0.3, 0.2, PALETTE["communication"]),
        ):
            bars = [((begin - first) / 1e3, (end - begin) / 1e3) for begin, end in spans]
            ax.broken_barh(bars, (middle - height / 2, height), facecolors=colour, linewidth=0)
    ax.set_xlim(0, (last - first) / 1e3)
    ax.set_ylim(len(lanes) - 0.5, -0.5)
    ax.set_yticks(range(len(lanes)), [f"rank {rank}" for rank in lanes], fontsize=8)
    ax.set_xlabel("milliseconds", fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    computing = {rank: seconds(lane.computing) * 1e6 / (last - first) for rank, lane in lanes.items()}
    least = min(computing, key=lambda rank: computing[rank])
    ax.set_title(f"rank {least} computes least: {computing[least]:.0%} of the time", loc="left", fontsize=10)
    meanings = {"forward": "computing", "communication": "communicating", "idle": "not computing"}
    handles = [Patch(facecolor=PALETTE[name], label=meaning) for name, meaning in meanings.items()]
    ax.figure.legend(handles=handles, loc="outside lower left", ncols=3, fontsize=7, frameon=False)
    busy = ", ".join(f"{seconds(lane.computing) * 1e3:.3g}" for lane in lanes.values())
    exposed = ", ".join(f"{seconds(lane.exposed) * 1e3:.3g}" for lane in lanes.values())
    return (
        f"In words: {len(lanes)} ranks in {(last - first) / 1e3:.4g} ms; by rank they compute for {busy} ms and "
        f"communicate without computing for {exposed} ms."
    )


def to_perfetto(lanes: dict[int, Lane]) -> str:
    """All ranks in one trace for https://ui.perfetto.dev: a process per rank, a track per use of its time."""
    first, _ = frame_of(lanes)
    events: list[dict] = []
    for rank, lane in lanes.items():
        events.append({"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}})
        named = [(begin, end, name) for begin, end, name in lane.slots]
        tracks = {
            "computing": named or [(*span, "computing") for span in lane.computing],
            "communicating": [(*span, "communicating") for span in lane.communicating],
            "exposed": [(*span, "exposed") for span in lane.exposed],
        }
        for number, (track, boxes) in enumerate(tracks.items()):
            events.append({"ph": "M", "name": "thread_name", "pid": rank, "tid": number, "args": {"name": track}})
            for begin, end, name in boxes:
                at = {"ts": begin - first, "dur": end - begin}
                events.append({"ph": "X", "name": name, "cat": track, "pid": rank, "tid": number, **at})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def main(
    traces: Annotated[list[Path], typer.Argument(help="One of our traces, or one torch.profiler trace per rank.")],
    figure: Annotated[Path | None, typer.Option(help="Save a PNG figure here.")] = None,
    perfetto: Annotated[Path | None, typer.Option(help="Save all ranks as one trace for Perfetto here.")] = None,
) -> None:
    """Show how long each rank computed, communicated without computing, and waited, and the bubble."""
    try:
        lanes = read_traces(traces)
        ours = measured(lanes)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    first, last = frame_of(lanes)
    whole = (last - first) / 1e6

    typer.echo(f"{'milliseconds':12}{'computing':>12}{'exposed':>12}{'idle':>12}{'bubble':>12}")
    for rank, lane in lanes.items():
        busy, exposed = seconds(lane.computing), seconds(lane.exposed)
        idle = whole - busy - exposed
        columns = "".join(f"{value * 1e3:12.2f}" for value in (busy, exposed, idle))
        typer.echo(f"{f'rank {rank}':12}{columns}{1 - busy / whole:12.1%}")
    if ours is not None:
        clock = predicted(ours)
        typer.echo(f"{'':20}{'predicted':>12}{'measured':>12}")
        typer.echo(f"{'makespan, ms':20}{clock.makespan:12.2f}{ours.makespan:12.2f}")
        typer.echo(f"{'bubble, worst rank':20}{clock.bubble:12.1%}{ours.bubble:12.1%}")
    try:
        if figure is not None:
            picture, ax = new_axes(9.0, 1.3 + 0.33 * len(lanes))
            typer.echo(draw_lanes(ax, lanes) if ours is None else draw_timeline(ax, ours.schedule, measured=ours))
            figure.write_bytes(png(picture))
        if perfetto is not None:
            perfetto.write_text(to_perfetto(lanes))
    except OSError as error:
        raise typer.BadParameter(f"cannot write {error.filename}: {error.strerror}") from None


if __name__ == "__main__":
    typer.run(main)
