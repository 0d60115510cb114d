"""The ledger of one rank: a short record of every communication call, in memory shared with the supervisor.

A rank that hangs or dies cannot report anything. Its ledger can: the last record says which call it was in, with
which tensor, and on which line.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

KINDS = (
    "send",
    "recv",
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
    "barrier",
)
POINT_TO_POINT = ("send", "recv")
STARTED, WAITING, DONE = range(3)

NO_PEER = -1
CAPACITY = 4096  # records kept; older ones are overwritten
_HEADER = struct.Struct("<q")
_RECORD = struct.Struct("<BBhiq24s48s152s40s")  # state, kind, peer, tag, bytes, members, tensor, place, other group
_NOTES = _HEADER.size + CAPACITY * _RECORD.size  # where the notes start
NOTE_BYTES, MOST_NOTES = 480, 8
NUM_BYTES = _NOTES + MOST_NOTES * NOTE_BYTES


@dataclass(frozen=True)
class Entry:
    """One communication call of one rank, as the supervisor reads it."""

    state: int
    kind: str
    peer: int
    tag: int
    payload_bytes: int
    members: str
    tensor: str
    place: str
    other_group: str = ""  # of a call on the world: "group of layer()" if the code around it was given another group

    def __str__(self) -> str:
        towards = {"send": f" to rank {self.peer}", "recv": f" from rank {self.peer}"}.get(self.kind, "")
        return f"{self.kind}{towards} ({self.tensor}), {self.place}"


def new_ledger() -> mmap.mmap:
    """Anonymous shared memory for one rank's ledger: visible to forked children, and not file-backed."""
    return mmap.mmap(-1, NUM_BYTES)


class Writer:
    """The rank's side: `begin` a call, then mark it `waiting` and `done`."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._count = self._num_notes = 0

    def begin(
        self,
        kind: str,
        peer: int,
        tag: int,
        payload_bytes: int,
        members: Sequence[int],
        tensor: str,
        place: str,
        other_group: str = "",
    ):
        """Write the record, then count it, so that a reader never sees a partial one. Returns its number."""
        number = self._count
        record = _RECORD.pack(
            STARTED,
            KINDS.index(kind),
            peer,
            tag,
            payload_bytes,
            _group_name(members).encode(),
            tensor.encode()[-48:],
            place.encode()[-152:],
            other_group.encode()[-40:],
        )
        start = _offset(number)
        self._memory[start : start + _RECORD.size] = record
        self._count += 1
        self._memory[: _HEADER.size] = _HEADER.pack(self._count)
        return number

    def mark(self, number: int, state: int) -> None:
        """Change the state of record `number`, if it has not been overwritten since."""
        if number >= self._count - CAPACITY:
            self._memory[_offset(number)] = state

    def note(self, text: str) -> None:
        """Write a note for the person who started the call; only the first `MOST_NOTES` fit."""
        if self._num_notes < MOST_NOTES:
            start = _NOTES + self._num_notes * NOTE_BYTES
            data = text.encode()[:NOTE_BYTES]
            self._memory[start : start + len(data)] = data
            self._num_notes += 1


def peek(memory: mmap.mmap) -> tuple[int, bool]:
    """The number of calls made so far, and whether the rank is waiting in one of the latest."""
    (count,) = _HEADER.unpack(memory[: _HEADER.size])
    latest = range(max(0, count - 64), count) if 0 <= count < 1 << 40 else ()
    return count, any(memory[_offset(number)] == WAITING for number in latest)


def read(memory: mmap.mmap) -> tuple[int, list[Entry]]:
    """The number of calls made so far and the entries that are still kept, oldest first."""
    (count,) = _HEADER.unpack(memory[: _HEADER.size])
    if not 0 <= count < 1 << 40:  # the rank can write anything into this memory
        return 0, []
    return count, [_entry(memory, number) for number in range(max(0, count - CAPACITY), count)]


def read_notes(memory: mmap.mmap) -> list[str]:
    """The notes that a rank wrote; it can write anything there, so only single lines of printable text count."""
    starts = range(_NOTES, NUM_BYTES, NOTE_BYTES)
    texts = [memory[start : start + NOTE_BYTES].rstrip(b"\0").decode(errors="ignore") for start in starts]
    return [text for text in texts if text and text.isprintable()]


def _group_name(members: Sequence[int]) -> str:
    """The group's ranks, or a name with a checksum if they are too many; at most 24 characters."""
    name = ",".join(map(str, members))
    return name if len(name) <= 24 else f"{len(members)} ranks {zlib.crc32(name.encode()):08x}"


def _entry(memory: mmap.mmap, number: int) -> Entry:
    start = _offset(number)
    state, kind, peer, tag, payload_bytes, *texts = _RECORD.unpack(memory[start : start + _RECORD.size])
    return Entry(
        min(state, DONE),
        KINDS[kind % len(KINDS)],
        peer,
        tag,
        payload_bytes,
        *(text.rstrip(b"\0").decode(errors="replace") for text in texts),
    )


def _offset(number: int) -> int:
    return _HEADER.size + (number % CAPACITY) * _RECORD.size
