"""gloo's frames: what the bytes of a connection say about messages and collectives, and the calls they belong to.

Every frame says how long it is, what it does (announce, ask for, carry) and which call it belongs to: the first byte of
its slot names the collective, the rest is the collective's number in its group, or a message's tag (gloo: types.h,
transport/tcp/pair.h). Nothing here asks a rank.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from autograder.jobs.reduce_scatter import FIRST_TAG

MESSAGE, REDUCE_SCATTER, UNKNOWN = "message", "reduce_scatter", "unknown"
KINDS = (
    MESSAGE,
    "gather",
    "all_gather",
    "reduce",
    "all_reduce",
    "scatter",
    "broadcast",
    "barrier",
    "all_to_all",
)
_FRAME = struct.Struct("<QQQQQQ")  # bytes of the whole frame, opcode, slot, offset, length, offset over there
_CARRY, _ANNOUNCE, _ASK = (0, 1), 2, 3  # opcodes: a buffer or an unbound buffer; the sender is ready; the receiver is
_NUMBER_BITS = 24  # of a collective's slot, below its number


class End(NamedTuple):
    """One direction of one connection: the ranks at its ends, the group it serves, where student code began."""

    source: int
    target: int
    group: int
    begin: int


class Frame(NamedTuple):
    """One frame; `number` is the collective's in its group, or the message's tag; `length` what it is about."""

    source: int
    target: int
    group: int
    kind: str
    number: int
    opcode: int
    length: int
    carried: int


@dataclass
class WireCall:
    """One call of one rank: what it carried itself, and for messages whom it talks to (-1 for a collective)."""

    rank: int
    kind: str
    group: int
    number: int
    peer: int
    carried: int = 0
    travelled: bool = False

    def row(self, totals: Counter) -> list:
        """[rank, kind, group, number, peer, own bytes, bytes of all ranks in this call]."""
        total = totals.get((self.kind, self.group, self.number), self.carried)
        return [self.rank, self.kind, self.group, self.number, self.peer, self.carried, total]


@dataclass
class Stream:
    """The bytes that went one way through a connection, read frame by frame as they come."""

    end: End
    data: bytearray = field(default_factory=bytearray)
    at: int = -1

    def put(self, place: int, data: bytes) -> bool:
        """Take bytes at their place; False where some before them are missing."""
        if place > len(self.data):
            return False
        self.data[place : place + len(data)] = data
        return True

    def frames(self) -> Iterator[Frame]:
        """The frames whose headers have come since the last time."""
        self.at = max(self.at, self.end.begin)
        while len(self.data) - self.at >= _FRAME.size:
            whole, opcode, slot, _, length, _ = _FRAME.unpack_from(self.data, self.at)
            kind, number = slot >> 56, slot & ((1 << 56) - 1)
            if whole < _FRAME.size or opcode > _ASK or kind >= len(KINDS):
                return
            self.at += whole
            carried = whole - _FRAME.size if opcode in _CARRY else 0
            name = REDUCE_SCATTER if kind == 0 and number >= FIRST_TAG else KINDS[kind]
            number = number if kind == 0 else number >> _NUMBER_BITS
            yield Frame(*self.end[:3], name, number, opcode, length, carried)

    def rest(self) -> int:
        """Bytes that are no whole frame."""
        return abs(len(self.data) - max(self.at, self.end.begin)) if len(self.data) > self.end.begin else 0


def rows(frames: Iterable[Frame]) -> list[list]:
    """[[source, target, kind, frames, bytes], ...] of what carries bytes."""
    numbers: Counter[tuple[int, int, str]] = Counter()
    sizes: Counter[tuple[int, int, str]] = Counter()
    for frame in frames:
        if frame.opcode in _CARRY:
            numbers[frame.source, frame.target, frame.kind] += 1
            sizes[frame.source, frame.target, frame.kind] += frame.carried
    return [[*key, number, sizes[key]] for key, number in numbers.items()]


def calls(frames: Iterable[Frame]) -> list[list]:
    """Each rank's calls in the order in which its own frames left it, as `WireCall.row`: all that was not in vain."""
    totals: Counter[tuple[str, int, int]] = Counter()
    found: list[WireCall] = []
    collectives: dict[tuple[int, str, int, int], WireCall] = {}
    waiting: defaultdict[tuple[int, int, int, int], deque[WireCall]] = defaultdict(deque)
    for frame in frames:
        if frame.kind == MESSAGE:
            _note_message(frame, found, waiting)
            continue
        call = WireCall(frame.source, frame.kind, frame.group, frame.number, -1, travelled=True)
        kept = collectives.setdefault((call.rank, call.kind, call.group, call.number), call)
        if kept is call:
            found.append(call)
        kept.carried += frame.carried
        totals[frame.kind, frame.group, frame.number] += frame.carried
    return [call.row(totals) for call in found if call.travelled]


def _note_message(frame: Frame, found: list[WireCall], waiting: defaultdict[tuple[int, int, int, int], deque]) -> None:
    """A send begins where it is announced and counts once it travels; a receive begins where it asks."""
    if frame.opcode == _ASK:
        found.append(WireCall(frame.source, "recv", frame.group, frame.number, frame.target, frame.length, True))
        return
    announced = waiting[frame.source, frame.target, frame.group, frame.number]
    if frame.opcode == _ANNOUNCE or not announced:
        found.append(WireCall(frame.source, "send", frame.group, frame.number, frame.target))
        announced.append(found[-1])
    if frame.opcode in _CARRY:
        sent = announced.popleft()
        sent.carried, sent.travelled = frame.carried, True
