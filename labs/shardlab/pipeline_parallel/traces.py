"""Export a schedule or a timeline: torch's CSV of actions, and a trace for Perfetto."""

import csv
import io
import json

from shardlab.pipeline_parallel.schedule import Schedule, actions_of
from shardlab.pipeline_parallel.simulation import Timeline


def to_csv(schedule: Schedule) -> str:
    """One line per rank, one cell per slot, in the grammar that torch's `_load_csv(file, "compute_only")` reads.

    Torch runs only schedules that hold each stage on one rank: it cannot run DualPipe.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([str(slot) for slot in slots] for slots in schedule)
    return text.getvalue()


def to_trace(timeline: Timeline, *, seconds_per_unit: float = 1.0) -> str:
    """A trace in Chrome's JSON format for https://ui.perfetto.dev: one track per rank, one box per slot.

    seconds_per_unit: the length of one unit of the timeline; use 1e-3 to show unit costs as milliseconds.
    """
    events: list[dict] = []
    for rank, slots in enumerate(timeline.schedule):
        events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": rank, "args": {"name": f"rank {rank}"}})
        for slot, begin, end in zip(slots, timeline.begins[rank], timeline.ends[rank], strict=True):
            events.append(
                {
                    "ph": "X",
                    "name": str(slot),
                    "cat": "".join(action.kind.value for action in actions_of(slot)),
                    "pid": 0,
                    "tid": rank,
                    "ts": begin * seconds_per_unit * 1e6,
                    "dur": (end - begin) * seconds_per_unit * 1e6,
                }
            )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
