"""The ledger of one rank: a short record of every communication call, in memory that the supervisor shares.

A rank that hangs or dies cannot tell its story. Its ledger can: the last record says which call it was in, with
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
_RECORD = struct.Struct("<BBhiq24s48s152s")  # state, kind, peer, tag, payload bytes, members, tensor, place
NUM_BYTES = _HEADER.size + CAPACITY * _RECORD.size


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

    def __str__(self) -> str:
        towards = {"send": f" to rank {self.peer}", "recv": f" from rank {self.peer}"}.get(self.kind, "")
        return f"{self.kind}{towards} ({self.tensor}), {self.place}"


def new_ledger() -> mmap.mmap:
    """Anonymous shared memory for one rank's ledger: forked children see it, no file stands for it."""
    return mmap.mmap(-1, NUM_BYTES)


class Writer:
    """The rank's side: `begin` a call, then mark it `waiting` and `done`."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._count = 0

    def begin(
        self, kind: str, peer: int, tag: int, payload_bytes: int, members: Sequence[int], tensor: str, place: str
    ):
        """Write the record, then count it, so that a reader never sees half of one. Returns its number."""
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


def peek(memory: mmap.mmap) -> tuple[int, bool]:
    """The number of calls made so far, and whether the rank waits for one of its latest."""
    (count,) = _HEADER.unpack(memory[: _HEADER.size])
    latest = range(max(0, count - 64), count) if 0 <= count < 1 << 40 else ()
    return count, any(memory[_offset(number)] == WAITING for number in latest)


def read(memory: mmap.mmap) -> tuple[int, list[Entry]]:
    """The number of calls made so far and the entries that are still kept, oldest first."""
    (count,) = _HEADER.unpack(memory[: _HEADER.size])
    if not 0 <= count < 1 << 40:  # the memory belongs to the rank, which may write anything into it
        return 0, []
    return count, [_entry(memory, number) for number in range(max(0, count - CAPACITY), count)]


def _group_name(members: Sequence[int]) -> str:
    """The group's ranks, or for many of them a name that no other group has; at most 24 letters."""
    name = ",".join(map(str, members))
    return name if len(name) <= 24 else f"{len(members)} ranks {zlib.crc32(name.encode()):08x}"


def _entry(memory: mmap.mmap, number: int) -> Entry:
    start = _offset(number)
    state, kind, peer, tag, payload_bytes, *texts = _RECORD.unpack(memory[start : start + _RECORD.size])
    members, tensor, place = (text.rstrip(b"\0").decode(errors="replace") for text in texts)
    return Entry(min(state, DONE), KINDS[kind % len(KINDS)], peer, tag, payload_bytes, members, tensor, place)


def _offset(number: int) -> int:
    return _HEADER.size + (number % CAPACITY) * _RECORD.size
