"""The record of a run of Megatron: its calls of torch.distributed and its visits to chosen lines, in order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MISSING = "this exercise runs the installed Megatron, and megatron-core is not installed here: pip install {pin}"
PIN = "megatron-core==0.16.1"


class SourceNotFound(RuntimeError):
    """megatron-core is missing, or its source differs from the release that the course uses."""


@dataclass(frozen=True)
class Call:
    """One call, seen from the innermost line of Megatron: where, what, with which tensors, in which group.

    shapes: of every tensor argument, outputs first as in the call. ranks: global. peer: global, for messages only.
    batch: the same number for the messages of one `batch_isend_irecv`; 0 for other calls.
    """

    file: str
    line: int
    function: str
    name: str
    shapes: tuple[tuple[int, ...], ...]
    ranks: tuple[int, ...]
    peer: int | None = None
    batch: int = 0

    @property
    def given(self) -> list[int]:
        """The shape of the tensor that this rank gives, the last argument."""
        return list(self.shapes[-1])

    def __str__(self) -> str:
        who = f"ranks {list(self.ranks)}" if self.peer is None else f"peer {self.peer}"
        shapes = " ".join(str(list(shape)) for shape in self.shapes)
        return f"{self.file}:{self.line:<5} {self.name:22} {shapes:24} {who}"


@dataclass(frozen=True)
class Place:
    """A statement of Megatron, found by its function and the beginning of the line: no line number is written down.

    file: below megatron/core. function: qualified, as in `Class.backward` or `outer.inner`. nth: among equal lines.
    """

    file: str
    function: str
    text: str
    nth: int = 1

    @property
    def path(self) -> Path:
        """The installed file."""
        return folder() / self.file

    @property
    def lines(self) -> tuple[int, int]:
        """The first and the last line of the statement in the installed file."""
        return _found(self)

    def source(self, before: int = 0, after: int = 0) -> str:
        """The statement's lines with their numbers, and some around them."""
        first, last = self.lines
        text = self.path.read_text().splitlines()
        shown = range(first - before, last + after + 1)
        return "\n".join(f"{number:5} {text[number - 1]}" for number in shown)


@dataclass(frozen=True)
class Visit:
    """A time when this place was reached, before it runs: shapes of tensors and values of integers, by variable."""

    place: Place
    values: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.place.file}:{self.place.lines[0]:<5} reached: {self.place.text}"


@dataclass(frozen=True)
class Trace:
    """The events of one rank, in order."""

    events: tuple[Call | Visit, ...]

    def __str__(self) -> str:
        return "\n".join(str(event) for event in self.events)

    @property
    def calls(self) -> list[Call]:
        """All calls, in order."""
        return [event for event in self.events if isinstance(event, Call)]

    def visits(self, place: Place) -> list[Visit]:
        """The visits to one place, in order."""
        return [event for event in self.events if isinstance(event, Visit) and event.place == place]

    def after(self, place: Place, visit: int) -> Iterator[Call | Visit]:
        """All events after the `visit`-th visit to this place, counted from 1; none if it has fewer visits."""
        events = iter(self.events)
        for event in events:
            visit -= isinstance(event, Visit) and event.place == place
            if visit == 0:
                yield from events

    def before(self, *places: Place) -> list[Call]:
        """The calls before the first visit to any of these places; all of them if there is none."""
        first = next((n for n, one in enumerate(self.events) if isinstance(one, Visit) and one.place in places), None)
        return [event for event in self.events[:first] if isinstance(event, Call)]

    def next_after(self, place: Place, visit: int = 1) -> Call | None:
        """The first call after the `visit`-th visit to this place."""
        return next((event for event in self.after(place, visit) if isinstance(event, Call)), None)

    def followed(self, place: Place) -> list[int]:
        """The visits to this place after which a call comes before anything else that was recorded."""
        numbers = range(1, len(self.visits(place)) + 1)
        return [number for number in numbers if isinstance(next(self.after(place, number), None), Call)]

    def next_batch(self, place: Place, visit: int = 1) -> list[Call]:
        """The messages that are started together next: one `batch_isend_irecv`."""
        first = self.next_after(place, visit)
        return [call for call in self.calls if call.batch == first.batch] if first else []


@cache
def folder() -> Path:
    """The folder megatron/core of the installed package; nothing is imported. Raises SourceNotFound."""
    spec = find_spec("megatron")
    for path in spec.submodule_search_locations or () if spec else ():
        if (found := Path(path) / "core").is_dir():
            return found
    raise SourceNotFound(MISSING.format(pin=PIN))


@cache
def _found(place: Place) -> tuple[int, int]:
    text = place.path.read_text().splitlines()
    body: Any = ast.parse("\n".join(text))
    for name in place.function.split("."):
        named = (node for node in ast.walk(body) if getattr(node, "name", None) == name)
        body = next((node for node in named if isinstance(node, ast.FunctionDef | ast.ClassDef)), None)
        if body is None:
            raise SourceNotFound(f"{place.path} has no {place.function}: the course uses {PIN}")
    found = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(body)
        if isinstance(node, ast.stmt) and text[node.lineno - 1].strip().startswith(place.text)
    ]
    found = sorted(set(found))
    if len(found) < place.nth:
        raise SourceNotFound(f"{place.path}, {place.function}: no line {place.text!r}; the course uses {PIN}")
    return found[place.nth - 1]
