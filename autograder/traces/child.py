"""Ask a child process for a trace: it imports Megatron once, forks ranks for each layout, and ends when idle."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from shardlab.ranks.warm import WorkerLost

from autograder.traces.layouts import Layout, encode
from autograder.traces.trace import Call, Place, SourceNotFound, Trace, Visit, folder

LIMIT_SECONDS = 150  # for one layout, with the imports, on a busy machine


class TraceLost(WorkerLost):
    """This machine cannot run Megatron: a machine fault, never an answer's."""


def record(layout: Layout, rank: int, places: tuple[Place, ...] = (), *, real: bool = False) -> Trace:
    """The trace of one rank, recorded once per process.

    `real` runs every rank on gloo; otherwise one process plays this rank of the world on torch's fake backend, which
    sends nothing and fits any number of ranks, but not calls whose sizes depend on data. Raises TraceLost.
    """
    return _record_all(layout, None if real else rank, places)[rank if real else 0]


@cache
def _record_all(layout: Layout, rank: int | None, places: tuple[Place, ...]) -> tuple[Trace, ...]:
    try:
        folder()
        lines = [[place.file, *place.lines] for place in places]
    except SourceNotFound as error:
        raise TraceLost(str(error)) from None
    answer = _ask({"layout": encode(layout), "rank": rank, "places": lines})
    return tuple(Trace(tuple(_event(event, places) for event in events)) for events in answer)


def _event(event: Mapping[str, Any], places: tuple[Place, ...]) -> Call | Visit:
    if "place" in event:
        return Visit(places[event["place"]], event["values"])
    shapes, ranks = tuple(map(tuple, event["shapes"])), tuple(event["ranks"])
    return Call(**{**event, "shapes": shapes, "ranks": ranks})


_lock = threading.Lock()
_children: dict[int, subprocess.Popen] = {}  # by the process that started it: a fork must not share the pipe


def _ask(request: dict[str, Any]) -> list[list[dict[str, Any]]]:
    with _lock:
        line = _asked(request) or _asked(request)  # an idle child may just have ended
    if not line:
        raise TraceLost(f"Megatron's process ended twice while it ran {request['layout']}")
    answer = json.loads(line)
    if "error" in answer:
        raise TraceLost(f"Megatron did not run {request['layout']}: {answer['error']}")
    return answer["ranks"]


def _asked(request: dict[str, Any]) -> bytes:
    """The child's answer, one line, or nothing if the child has ended. Raises TraceLost if it takes too long."""
    child = _started()
    with suppress(BrokenPipeError):
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.flush()
        if not select.select([child.stdout], [], [], LIMIT_SECONDS)[0]:
            _end(child)
            raise TraceLost(f"Megatron did not run {request['layout']} within {LIMIT_SECONDS} seconds")
        if (line := child.stdout.readline()).endswith(b"\n"):
            return line
    _end(child)
    return b""


def _started() -> Any:
    child = _children.get(os.getpid())
    if child is None or child.poll() is not None:
        program = [sys.executable, "-P", "-m", "autograder.traces.program"]
        child = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        _children[os.getpid()] = child
    return child


def _end(child: Any) -> None:
    """End the child and its ranks, which share its session."""
    _children.pop(os.getpid(), None)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        with suppress(OSError):
            pipe.close()
