"""In a rank's process: record calls of torch.distributed and visits to places. Wrap before importing Megatron.

Megatron's modules copy torch's functions into their own globals at import, so later wrapping would miss them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

KINDS = (
    *("all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor"),
    *("all_to_all_single", "broadcast", "isend", "irecv", "send", "recv", "batch_isend_irecv"),
)
INSIDE = "/megatron/core/"
Event = dict[str, Any]

events: list[Event] = []
_inside: list[str] = []  # the wrapped call that is running, if any


def wrap() -> None:
    """Wrap each function under both of its names: P2POp accepts isend only if it is distributed_c10d's own global."""
    for name in KINDS:
        wrapped = _wrapped(name, getattr(dist, name))
        setattr(dist, name, wrapped)
        setattr(dist.distributed_c10d, name, wrapped)


def _wrapped(name: str, function: Callable) -> Callable:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        where = _innermost()
        if _inside or where is None:  # a collective made of others counts once
            return function(*args, **kwargs)
        if name == "batch_isend_irecv":
            batch = {"batch": len(events) + 1}
            events.extend(where | _told(op.op.__name__, [op.tensor], op.group, op.peer) | batch for op in args[0])
        else:
            given = [*args, *kwargs.values()]
            group = next((one for one in given if isinstance(one, dist.ProcessGroup)), None)
            peer = next((kwargs[key] for key in ("dst", "src") if kwargs.get(key) is not None), None)
            events.append(where | _told(name, [*_tensors(given)], group, peer))
        _inside.append(name)
        try:
            return function(*args, **kwargs)
        finally:
            _inside.pop()

    return call


def _innermost() -> Event | None:
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if INSIDE in path:
            function = frame.f_code.co_qualname
            return {"file": path.rsplit(INSIDE, 1)[1], "line": frame.f_lineno, "function": function}
        frame = frame.f_back
    return None


def _told(name: str, tensors: Sequence[torch.Tensor], group: Any, peer: int | None) -> Event:
    ranks = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)
    return {"name": name, "shapes": [list(one.shape) for one in tensors], "ranks": list(ranks), "peer": peer}


def _tensors(given: Sequence[Any]) -> Iterator[torch.Tensor]:
    for one in given:
        yield from (item for item in (one if isinstance(one, list | tuple) else [one]) if torch.is_tensor(item))


@contextmanager
def visits(places: Sequence[tuple[str, int, int]]) -> Iterator[None]:
    """Also record when a place, [file, first line, last line], is reached.

    The backward must run in this thread, as it does on a CPU. A statement over several lines reports its first line
    again when its arguments are ready: as long as it is not left, that is one visit.
    """

    def enter(frame: Any, *_: Any) -> Any:
        path = frame.f_code.co_filename
        if INSIDE not in path:
            return None
        file = path.rsplit(INSIDE, 1)[1]
        mine = [(n, first, last) for n, (name, first, last) in enumerate(places) if name == file]
        first_line, last_line = (
            frame.f_code.co_firstlineno,
            max((n or 0 for *_, n in frame.f_code.co_lines()), default=0),
        )
        mine = [one for one in mine if first_line <= one[1] <= last_line]
        return _watching(mine) if mine else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def _watching(mine: Sequence[tuple[int, int, int]]) -> Callable:
    inside: int | None = None

    def local(frame: Any, event: str, _: Any) -> Any:
        nonlocal inside
        if event == "line":
            number = next((n for n, first, last in mine if first <= frame.f_lineno <= last), None)
            if number is not None and number != inside:
                events.append({"place": number, "values": _plain(frame.f_locals)})
            inside = number
        return local

    return local


def _plain(variables: dict[str, Any]) -> dict[str, Any]:
    """Shapes of tensors, integers, and the numbers in lists of splits, which Megatron keeps as arrays or tensors."""
    told: dict[str, Any] = {}
    for name, value in variables.items():
        if name.endswith("split_sizes"):
            told[name] = None if value is None else [int(size) for size in value]
        elif torch.is_tensor(value):
            told[name] = list(value.shape)
        elif type(value) in (int, bool):
            told[name] = value
    return told
