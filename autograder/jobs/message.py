"""Messages across the trust boundary: a request goes into the sandbox and a report comes back.

One encoder and one decoder serve both. The decoder checks every field and its type, so no reader has to.
"""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from autograder.jobs import plain

Message = TypeVar("Message")


@dataclass(frozen=True)
class Request:
    """How to run a job.

    The answer, each rank's input and the keys are sent separately, because the zygote must not read them (see
    `parcels`). `groups` lists the ranks of each process group to create (None: the world). `functions` are the names
    that the answer must define. `call` is the one to call, or None if the answer is a value.
    """

    program: str  # a key of `job.PROGRAMS`
    ranks: int
    timeout: float  # seconds
    memory_bytes: int  # address space of one rank
    memory_all_bytes: int  # resident memory of all ranks, beyond what they inherit
    functions: list[str] = field(default_factory=list)
    call: str | None = None
    groups: list[Any] = field(default_factory=list)
    masked: list[str] = field(default_factory=list)
    seals: bool = True  # no new process groups
    trains: bool = False
    reads_calls: bool = False
    keeps_inputs: bool = False
    returns_inputs: bool = False
    kept_output: int = 4096  # characters of prints that are reported


@dataclass(frozen=True)
class Job:
    """A request on the trusted side, with the answer, one input per rank, and keys for modules that request them."""

    request: Request
    answer: dict[str, Any]
    inputs: list[Any]
    keys: dict[str, Any] | None = None

    def parcels(self) -> list[bytes]:
        """The parts that are sent separately: answer, inputs by rank, keys."""
        return [plain.encode(one) for one in (self.answer, *self.inputs, self.keys)]


@dataclass(frozen=True)
class End:
    """How one rank ended. `result` is an encoded message from the rank itself, so it is only a claim."""

    result: bytes | None
    error: str | None
    exit: int | None
    peak_bytes: int | None  # above its memory before student code; None if unknown


@dataclass(frozen=True)
class Report:
    """A job as its supervisor observed it. If `lost` is set, it gives the reason and the other fields are empty."""

    ends: list[End] = field(default_factory=list)
    report: str | None = None
    timed_out: bool = False
    seconds: float = 0.0
    loopback_bytes: int = -1
    wire: list[Any] | None = None
    calls: list[Any] | None = None
    unread: bool = False  # there were too many packets, or they could not be parsed
    touched: list[Any] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    printed: str = ""
    lost: str = ""


def encode(message: Any) -> bytes:
    """Encode a message. Raises plain.NotPlain for a value that cannot be sent."""
    return plain.encode(_plain(message))


def decode(kind: type[Message], data: bytes) -> Message:
    """Decode a message of that kind. Raises plain.NotPlain for a missing or unknown field or a wrong type."""
    return _rebuilt(kind, plain.decode(data))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _rebuilt(kind: Any, value: Any) -> Any:
    hints = _hints(kind)
    if not isinstance(value, dict) or value.keys() != hints.keys():
        raise plain.NotPlain(f"not a {kind.__name__}")
    return kind(**{name: _field(f"{kind.__name__}.{name}", hint, value[name]) for name, hint in hints.items()})


def _field(name: str, hint: Any, value: Any) -> Any:
    if isinstance(value, list) and is_dataclass(item := (get_args(hint) or (None,))[0]):
        return [_rebuilt(item, one) for one in value]
    if not _fits(hint, value):
        raise plain.NotPlain(f"{name} is of type {type(value).__name__}")
    return value


def _fits(hint: Any, value: Any) -> bool:
    """Whether a value has exactly the type of an annotation; an int also counts as a float."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(one, value) for one in get_args(hint))
    if origin is list:
        return type(value) is list and all(_fits(get_args(hint)[0], one) for one in value)
    if origin is dict:
        return type(value) is dict
    return hint is Any or type(value) is hint or (hint is float and type(value) is int)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
