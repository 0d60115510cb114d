"""Read what faulthandler writes about a rank: where each of its threads was when the rank was ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile

from shardlab.meter.place import describe, is_machinery, is_torchs

_NEW_GROUP = re.compile(r'distributed_c10d\.py", line \d+ in new_group\b')
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')
_THREAD = re.compile(r"^(?:Current t|T)hread .*$", re.MULTILINE)
_OF_A_RANK = re.compile(r'ranks[/\\](?:inside|cold)\.py", line \d+ in (?:live|_be_a_rank)\b')


@dataclass(frozen=True)
class Wait:
    """Something that a thread waits for that is not a message, and what to do about it."""

    said: str
    remedy: str


_LOCKS = "Release a lock before you take it again, and take several locks in one order on every thread."
_WAITS = {  # by the functions of the standard library in which a thread waits
    r"/queue\.py": Wait("waits for a queue", "Put something into it before you get it, or use get(timeout=...)."),
    r"/concurrent/futures/": Wait("waits for a future", "Let every submitted job end, or use result(timeout=...)."),
    r'/threading\.py", line \d+ in (join|_wait_for_tstate_lock)\b': Wait(
        "waits for a thread that does not end", "Tell a thread to end before you join it, or use join(timeout=...)."
    ),
    r"/(subprocess|popen_\w+)\.py|/multiprocessing/": Wait(
        "waits for another process", "Let it end, or give the call a timeout=."
    ),
    r"/threading\.py": Wait("waits for a lock, an event or a condition", f"{_LOCKS} Set an event before you wait."),
}
_A_LOCK_OR_SLEEP = Wait("waits for a lock, or sleeps", _LOCKS)  # neither has a frame


def is_in_new_group(stack: str) -> bool:
    """Whether a rank was ended inside `dist.new_group`: it sends nothing there that a ledger could keep."""
    return _NEW_GROUP.search(stack) is not None


def where(stack: str) -> str:
    """The line of the rank's own thread, in code that is neither torch's nor the standard library's."""
    return _line_of(_threads(stack)[0])


def others(stack: str) -> list[str]:
    """The lines of the rank's other threads that run such code."""
    return [line.removeprefix(", at ") for thread in _threads(stack)[1:] if (line := _line_of(thread))]


def awaited(stack: str) -> Wait | None:
    """The reason why an idle rank waits, unless it is a message; None where it waits inside torch or has no stack."""
    frames = list(_FRAME.finditer(_threads(stack)[0]))
    if not frames or is_torchs(frames[0]["file"]):
        return None
    library = "\n".join(frame[0] for frame in takewhile(lambda frame: is_machinery(frame["file"]), frames))
    return next((wait for pattern, wait in _WAITS.items() if re.search(pattern, library)), _A_LOCK_OR_SLEEP)


def _threads(stack: str) -> list[str]:
    """The part of each thread, first the thread that runs the rank's function."""
    parts = [part for part in _THREAD.split(stack) if part.strip()] or [""]
    return sorted(parts, key=lambda part: _OF_A_RANK.search(part) is None)


def _line_of(thread: str) -> str:
    for match in _FRAME.finditer(thread):
        if not is_machinery(match["file"]):
            return ", at " + describe(match["file"], int(match["line"]), match["function"])
    return ""
