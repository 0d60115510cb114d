"""Parse faulthandler's output for a rank: where each of its threads was when the rank was stopped."""

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
    """Something other than a message that a thread waits for, and what to do about it."""

    said: str
    remedy: str


_LOCKS = "Release a lock before you take it again, and take several locks in the same order on every thread."
_WAITS = {  # by the standard-library function in which a thread waits
    r"/queue\.py": Wait("waits for a queue", "Put an item into it before you get one, or use get(timeout=...)."),
    r"/concurrent/futures/": Wait("waits for a future", "Let every submitted job finish, or use result(timeout=...)."),
    r'/threading\.py", line \d+ in (join|_wait_for_tstate_lock)\b': Wait(
        "waits for a thread that does not end", "Signal a thread to stop before you join it, or use join(timeout=...)."
    ),
    r"/(subprocess|popen_\w+)\.py|/multiprocessing/": Wait(
        "waits for another process", "Make sure that it ends, or give the call a timeout=."
    ),
    r"/threading\.py": Wait("waits for a lock, an event or a condition", f"{_LOCKS} Set an event before you wait."),
}
_A_LOCK_OR_SLEEP = Wait("waits for a lock, or sleeps", _LOCKS)  # neither appears as a Python frame


def is_in_new_group(stack: str) -> bool:
    """Whether a rank was stopped inside `dist.new_group`, whose messages a ledger cannot record."""
    return _NEW_GROUP.search(stack) is not None


def where(stack: str) -> str:
    """The line at which the rank's main thread was, in code outside torch and the standard library."""
    return _line_of(_threads(stack)[0])


def others(stack: str) -> list[str]:
    """The lines at which the rank's other threads were, for those that run such code."""
    return [line.removeprefix(", at ") for thread in _threads(stack)[1:] if (line := _line_of(thread))]


def awaited(stack: str) -> Wait | None:
    """What an idle rank waits for, if not for a message; None if it waits inside torch or has no stack."""
    frames = list(_FRAME.finditer(_threads(stack)[0]))
    if not frames or is_torchs(frames[0]["file"]):
        return None
    library = "\n".join(frame[0] for frame in takewhile(lambda frame: is_machinery(frame["file"]), frames))
    return next((wait for pattern, wait in _WAITS.items() if re.search(pattern, library)), _A_LOCK_OR_SLEEP)


def _threads(stack: str) -> list[str]:
    """One part per thread; the thread that runs the rank's function comes first."""
    parts = [part for part in _THREAD.split(stack) if part.strip()] or [""]
    return sorted(parts, key=lambda part: _OF_A_RANK.search(part) is None)


def _line_of(thread: str) -> str:
    for match in _FRAME.finditer(thread):
        if not is_machinery(match["file"]):
            return ", at " + describe(match["file"], int(match["line"]), match["function"])
    return ""
