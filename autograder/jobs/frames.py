"""Parse gloo's frames: from the bytes of a connection to messages and collectives, and the calls they belong to.

Every frame has a length, an operation (announce, request, carry) and a slot that identifies its call: the first byte
of the slot is the kind of collective, and the rest is the collective's number in its group, or a message's tag (gloo:
types.h, transport/tcp/pair.h). Nothing here relies on what a rank reports.
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
_FRAME = struct.Struct("<QQQQQQ")  # bytes of the whole frame, opcode, slot, offset, length, remote offset
_CARRY, _ANNOUNCE, _ASK = (0, 1), 2, 3  # opcodes: data of a (bound or unbound) buffer; sender ready; receiver ready
_NUMBER_BITS = 24  # bits of a collective's slot below its number


class End(NamedTuple):
    """One direction of one connection: its two ranks, its group, and the position where student code began."""

    source: int
    target: int
    group: int
    begin: int


class Frame(NamedTuple):
    """One frame; `number` is the collective's number in its group or the message's tag; `length` is the data length."""

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
    """One call of one rank: the bytes that the rank carried, and a message's peer (-1 for a collective)."""

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
    """The bytes of one direction of a connection, parsed frame by frame as they arrive."""

    end: End
    data: bytearray = field(default_factory=bytearray)
    at: int = -1

    def put(self, place: int, data: bytes) -> bool:
        """Store bytes at their position; returns False if earlier bytes are missing."""
        if place > len(self.data):
            return False
        self.data[place : place + len(data)] = data
        return True

    def frames(self) -> Iterator[Frame]:
        """The frames whose headers have arrived since the last call."""
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
        """The number of bytes that are not part of a complete frame."""
        return abs(len(self.data) - max(self.at, self.end.begin)) if len(self.data) > self.end.begin else 0


def rows(frames: Iterable[Frame]) -> list[list]:
    """[[source, target, kind, frames, bytes], ...] of the frames that carry data."""
    numbers: Counter[tuple[int, int, str]] = Counter()
    sizes: Counter[tuple[int, int, str]] = Counter()
    for frame in frames:
        if frame.opcode in _CARRY:
            numbers[frame.source, frame.target, frame.kind] += 1
            sizes[frame.source, frame.target, frame.kind] += frame.carried
    return [[*key, number, sizes[key]] for key, number in numbers.items()]


def calls(frames: Iterable[Frame]) -> list[list]:
    """Each rank's calls as `WireCall.row`, in the order of their first frames, without sends that carried no data."""
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
    """Note a send when it is announced, and count it once its data is sent; note a receive when it is requested."""
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
