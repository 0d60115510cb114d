"""Draw a step from profiler traces, some of which come with the package."""

from __future__ import annotations

import gzip
import json
import zipfile
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from shardlab.figures.palette import PALETTE

# ---- Profiler traces for the pages, included in the package because students have no GPU to record them --------------


KEPT = Path(__file__).parent / "traces.zip"  # kernels of one H200, from `benchmarks/profiler_traces.py`


def kept_traces(week: str) -> list[bytes]:
    """The traces of a week ("week07"), one .json.gz per rank in order. Raises ValueError that lists existing weeks."""
    with zipfile.ZipFile(KEPT) as kept:
        names = sorted(kept.namelist())
        found = [kept.read(name) for name in names if name.startswith(f"{week}-rank")]
    if not found:
        weeks = sorted({name.split("-")[0] for name in names})
        raise ValueError(f"there are no traces of {week!r}: use {' or '.join(weeks)}")
    return found


# A step recorded by torch's profiler: per rank, one compute lane per stream and one lane of messages, on one clock


MEANINGS = {"forward": "forward", "backward": "backward", "optimizer": "optimizer", "communication": "messages"}
WAITING = "waiting for a partner"
CPU = 0  # the stream of operators; torch launches kernels on others
TOGETHER = 0.1  # milliseconds: kernels of one message end at most this far apart
HEIGHT, GAP = 0.26, 0.04  # of a lane, in units of one rank
LEGEND = 0.57  # inches below the axes
WAITING_STYLE: dict[str, Any] = {
    "facecolor": PALETTE["idle"], "edgecolor": PALETTE["communication"], "hatch": "////", "linewidth": 0,
}  # fmt: skip
Span = tuple[float, float]  # begin and end, milliseconds


class Piece(NamedTuple):
    """One piece of work: its kind, its stream (None for messages), begin and end in milliseconds."""

    meaning: str
    stream: int | None
    begin: float
    end: float


def read_trace(trace: Path | bytes) -> list[Piece]:
    """The kernels of a GPU trace, or else the operators and messages of a CPU trace, in order.

    trace: a .json.gz file, or its content. Raises ValueError when it is not such a trace.
    """
    path = trace if isinstance(trace, Path) else "This"
    try:
        events = json.loads(gzip.decompress(trace.read_bytes() if isinstance(trace, Path) else trace))["traceEvents"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a profiler's trace in .json.gz: {error}") from None
    timed = [event for event in events if event.get("ph") == "X"]
    pieces = sorted(_kernels(timed) or _operators(timed), key=lambda piece: piece.begin)
    if not pieces:
        raise ValueError(f"{path} holds neither kernels nor operators: profile a step")
    return pieces


def _kernels(events: list[dict[str, Any]]) -> list[Piece]:
    launches = {
        event["args"]["correlation"]: event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    of_autograd = {event["tid"] for event in events if event["name"].startswith("autograd::engine")}
    updates = _spans(event for event in events if event["name"].startswith("Optimizer.step"))
    pieces = []
    for kernel in events:
        if kernel.get("cat") != "kernel":
            continue
        begin, end = _span(kernel)
        launch = launches.get(kernel["args"]["correlation"], kernel)
        if "nccl" in kernel["name"]:
            pieces.append(Piece("communication", None, begin, end))
        elif _is_inside(_span(launch)[0], updates):
            pieces.append(Piece("optimizer", kernel["args"]["stream"], begin, end))
        else:
            meaning = "backward" if launch["tid"] in of_autograd else "forward"
            pieces.append(Piece(meaning, kernel["args"]["stream"], begin, end))
    return pieces


def _operators(events: list[dict[str, Any]]) -> list[Piece]:
    """A CPU runs the backward on the calling thread, so its operators are those inside autograd's events."""
    updates = _spans(event for event in events if event["name"].startswith("Optimizer.step"))
    backward = _spans(event for event in events if event["name"].startswith("autograd::engine"))
    pieces = [
        Piece("communication", None, *_span(event))
        for event in events
        if event["name"].startswith("gloo:") and event["name"] != "gloo:barrier"
    ]
    ended = float("-inf")
    operators = (event for event in events if event.get("cat") == "cpu_op" and event["name"].startswith("aten::"))
    for begin, end in sorted(map(_span, operators), key=lambda span: (span[0], -span[1])):
        if begin < ended:
            continue  # part of the previous operator
        ended = end
        meaning = (
            "optimizer" if _is_inside(begin, updates) else "backward" if _is_inside(begin, backward) else "forward"
        )
        pieces.append(Piece(meaning, CPU, begin, end))
    return pieces


def _span(event: dict[str, Any]) -> Span:
    return event["ts"] / 1e3, (event["ts"] + event["dur"]) / 1e3


def _spans(events: Iterable[dict[str, Any]]) -> list[Span]:
    """The times at which any of these events runs, in order, without overlaps."""
    return joined(map(_span, events))


def joined(spans: Iterable[Span]) -> list[Span]:
    """Merge overlapping and adjacent spans."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def _is_inside(time: float, spans: list[Span]) -> bool:
    place = bisect_right(spans, (time, float("inf"))) - 1
    return place >= 0 and time < spans[place][1]


def draw_profile(ax: Axes, traces: Sequence[Path | bytes], *, name: str) -> str:
    """Draw one step on all ranks from their traces, rank 0 on top. Returns the sentence."""
    by_rank = [read_trace(path) for path in traces]
    first = min(piece.begin for pieces in by_rank for piece in pieces if piece.stream is not None)
    last = max(piece.end for pieces in by_rank for piece in pieces)
    # The two parts of gloo's messages need not end together, so only kernels tell who waits.
    by_kernel = not any(piece.stream == CPU for pieces in by_rank for piece in pieces)
    waits = [waiting(by_rank, rank) if by_kernel else [] for rank in range(len(by_rank))]
    seen = set()
    for rank, pieces in enumerate(by_rank):
        streams = sorted({piece.stream for piece in pieces if piece.stream is not None})
        lanes: list[int | None] = [*streams, None]
        for lane, stream in enumerate(lanes):
            top = rank + (lane - (len(lanes) - 1) / 2) * (HEIGHT + GAP) - HEIGHT / 2
            ax.broken_barh([(0, last - first)], (top, HEIGHT), facecolor=PALETTE["idle"])
            for meaning in MEANINGS:
                mine = [
                    (max(piece.begin, first) - first, piece.end - max(piece.begin, first))
                    for piece in pieces
                    if piece.stream == stream and piece.meaning == meaning and piece.end > first
                ]
                if mine:
                    seen.add(meaning)
                    ax.broken_barh(mine, (top, HEIGHT), facecolor=PALETTE[meaning], linewidth=0)
            if stream is None and waits[rank]:
                pale = [(max(begin, first) - first, end - max(begin, first)) for begin, end in waits[rank]]
                ax.broken_barh(pale, (top, HEIGHT), **WAITING_STYLE)
    ax.set(xlim=(0, last - first), ylim=(len(by_rank) - 0.45, -0.55), xlabel="milliseconds")
    ax.set_title(name, loc="left", fontsize=10)
    ax.set_yticks(range(len(by_rank)), [f"rank {rank}" for rank in range(len(by_rank))])
    below = LEGEND / ax.figure.get_figheight()  # type: ignore[union-attr] - not a subfigure
    handles = [Patch(facecolor=PALETTE[key], label=text) for key, text in MEANINGS.items() if key in seen]
    handles += [Patch(**WAITING_STYLE, label=WAITING)] if any(waits) else []
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -below), ncols=5, frameon=False)
    idle, hidden = shares(by_rank, (first, last))
    sent = sum(piece.end - piece.begin for pieces in by_rank for piece in pieces if piece.stream is None)
    waited = f"; {sum(map(_length, waits)) / sent:.0%} of it is waiting for a partner" if any(waits) else ""
    return (
        f"{name}: {len(by_rank)} ranks, {last - first:.0f} ms. Nothing is computed in {idle:.0%} of the ranks' time; "
        f"{hidden:.0%} of the messages' time overlaps compute{waited}."
    )


def waiting(by_rank: Sequence[Sequence[Piece]], rank: int) -> list[Span]:
    """When the rank's messages only wait: from their begin until the partner's part of the message begins, too."""
    others = [p for other, pieces in enumerate(by_rank) if other != rank for p in pieces if p.stream is None]
    mine = [piece for piece in by_rank[rank] if piece.stream is None]
    begins = [(piece, _partner_begin(piece, others)) for piece in mine]
    return [(piece.begin, begin) for piece, begin in begins if begin > piece.begin]


def _partner_begin(piece: Piece, others: Sequence[Piece]) -> float:
    """When the other rank's part of a message begins; the message's own begin if no other rank takes part.

    A message occupies both ranks until it has arrived, so its two parts end together. If no other part does, the
    partner's kernel has a second message that goes on: it is the last to begin of those that run at the end.
    """
    running = [other for other in others if other.begin < piece.end <= other.end + TOGETHER]
    together = [other for other in running if other.end - piece.end <= TOGETHER]
    if together:
        return min(together, key=lambda other: abs(other.end - piece.end)).begin
    return max((other.begin for other in running), default=piece.begin)


def shares(by_rank: Sequence[Sequence[Piece]], step: Span) -> tuple[float, float]:
    """The share of all ranks' time without compute, and the share of messages' time that overlaps compute."""
    computed = sent = beside = 0.0
    for pieces in by_rank:
        work = joined((piece.begin, piece.end) for piece in pieces if piece.stream is not None)
        messages = joined((max(piece.begin, step[0]), piece.end) for piece in pieces if piece.stream is None)
        computed += _length(work)
        sent += _length(messages)
        beside += sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in work for b in messages)
    return 1 - computed / len(by_rank) / (step[1] - step[0]), beside / sent if sent else 0.0


def _length(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in spans if end > begin)
