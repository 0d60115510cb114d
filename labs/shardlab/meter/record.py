"""Record every communication call of this rank.

Calls are observed in two places. `Recorder` is a dispatch mode: every Python function of torch.distributed, DTensor and
DDP ends in one operator of the `c10d` namespace, which the mode sees. Only the returned `Work` handle knows when a call
has *finished*, so `handles` wraps the methods of `ProcessGroup` and `Work`, once per process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from shardlab.costs import traffic
from shardlab.meter import handles, ledger, operators
from shardlab.meter.place import caller, is_for_a_library, other_group


@dataclass
class Event:
    """One communication call: payload and sent bytes, the ranks that took part, the line of the call, when it ran.

    sent_bytes: what this rank sends; for symmetric collectives, what it sends in a ring (gloo sends twice as much for a
    reduce-scatter, which it implements as an all-reduce, and up to twice as much for a reduce).

    `waits` is when Python began to wait for the call: the time from then to `end` is exposed.
    """

    kind: str
    members: tuple[int, ...]
    peer: int | None
    shape: tuple[int, ...]
    dtype: str
    payload_bytes: int
    sent_bytes: float
    where: str
    begin: float
    end: float | None = None
    waits: float | None = None

    @property
    def group_size(self) -> int:
        """How many ranks the call's group has."""
        return len(self.members)


@dataclass
class Bill:
    """The communication calls of one rank between two moments, in order."""

    events: list[Event] = field(default_factory=list)

    @property
    def sent_bytes(self) -> float:
        """Bytes this rank sent: actual bytes for sends, a ring's bytes for collectives."""
        return sum(event.sent_bytes for event in self.events)

    @property
    def exposed_seconds(self) -> float:
        """Seconds in which this rank did nothing but wait for communication."""
        return sum(e.end - e.waits for e in self.events if e.end is not None and e.waits is not None)

    @property
    def num_messages(self) -> int:
        """How many sends this rank made."""
        return self.count("send")

    @property
    def kinds(self) -> list[str]:
        """The kind of each call, in order."""
        return [event.kind for event in self.events]

    def count(self, kind: str) -> int:
        """How many calls of one kind were made."""
        return self.kinds.count(kind)


def ring_sent_bytes(kind: str, group_size: int, payload_bytes: int) -> float:
    """Bytes that one rank of a ring sends for a collective on a whole tensor of `payload_bytes` (costs.traffic)."""
    if group_size == 1 or kind in ("recv", "barrier"):
        return 0
    if kind == "all_reduce":
        return traffic.ring_all_reduce_bytes(group_size, payload_bytes)
    if kind == "send":
        return payload_bytes
    return traffic.ring_all_gather_bytes(group_size, payload_bytes)  # all other kinds: (N-1)/N of the whole tensor


class Recorder(TorchDispatchMode):
    """Writes each communication call into the ledger and every open bill."""

    def __init__(self, writer: ledger.Writer | None = None) -> None:
        super().__init__()
        self.writer = writer
        self.bills: list[Bill] = []
        self.group: dist.ProcessGroup | None = None
        self.latest: tuple[Event, int] | None = None
        self.pending: dict[object, tuple[Any, Event, int]] = {}  # by id of the handle or address of the result
        self.handed_out: dict[int, Event] = {}  # handles that a program has received and not used yet
        self.notes: list[str] = []  # notes for the person who started this rank

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise the first operator imports torch._dynamo: 800 modules, two seconds

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(kind.__module__.startswith("torch.distributed") for kind in types):
            return NotImplemented  # a DTensor first becomes plain tensors and collectives, which arrive here again
        if func.namespace not in ("c10d", "_c10d_functional"):
            return func(*args, **(kwargs or {}))
        if func is torch.ops._c10d_functional.wait_tensor.default:
            key = _address(args[0])
            self._mark(key, ledger.WAITING)
            answer = func(*args)
            self._mark(key, ledger.DONE)
            return answer
        self._note(func, args, kwargs or {})
        answer = func(*args, **(kwargs or {}))
        if func.namespace == "_c10d_functional" and self.latest is not None:  # the result serves as the handle
            for tensor in operators.tensors_in(answer):
                self.pending[_address(tensor)] = (None, *self.latest)
            self.latest = None
        return answer

    def _note(self, func: Any, args: tuple, kwargs: dict) -> None:
        call = operators.read(func, args, kwargs, self.group)
        if call is None:
            return
        place, begin = caller(), time.monotonic()
        event = Event(
            kind=call.kind,
            members=call.members,
            peer=call.peer,
            shape=call.shape,
            dtype=call.dtype,
            payload_bytes=call.payload_bytes,
            sent_bytes=ring_sent_bytes(call.kind, len(call.members), call.payload_bytes)
            if call.sent_bytes is None
            else call.sent_bytes,
            where=place,
            begin=begin,
        )
        for bill in self.bills:
            bill.events.append(event)
        number = -1
        if self.writer is not None:
            tensor = f"{list(call.shape)} {call.dtype}" if call.dtype else "no tensor"
            peer = ledger.NO_PEER if call.peer is None else call.peer
            other = other_group() if self.group is not None and handles.might_mean_another(self.group) else ""
            number = self.writer.begin(
                call.kind, peer, call.tag, call.payload_bytes, call.members, tensor, place, other
            )
        self.latest = (event, number)

    def called(self, work: Any) -> None:
        """Connect the call just noted with the handle it returned."""
        if self.latest is not None and work is not None:
            self.pending[id(work)] = (work, *self.latest)
            if not is_for_a_library():
                self.handed_out[id(work)] = self.latest[0]
        self.latest = None

    def used(self, work: Any) -> None:
        """Note that the program used a handle: waited for it, saw it completed, or took its future."""
        self.handed_out.pop(id(work), None)

    def waited(self, work: Any, state: int) -> None:
        """Note that the program is waiting for a handle, or has waited."""
        self.used(work)
        self._mark(id(work), state)

    def note(self, text: str) -> None:
        """Write a note for the person who started this rank; each text only once."""
        if text in self.notes or len(self.notes) == ledger.MOST_NOTES:
            return
        self.notes.append(text)
        if self.writer is not None:
            self.writer.note(text)

    def note_unwaited(self) -> None:
        """After the function has returned, note the lines whose handles were never used."""
        left: dict[tuple[str, str], list[Event]] = {}
        for event in self.handed_out.values():
            left.setdefault((event.kind, event.where), []).append(event)
        for events in left.values():
            self.note(handles.unwaited(events[0], len(events)))

    def _mark(self, key: object, state: int) -> None:
        _, event, number = self.pending.get(key, (None, None, -1))
        if event is None:
            return
        if self.writer is not None:
            self.writer.mark(number, state)
        if state == ledger.WAITING and event.waits is None:
            event.waits = time.monotonic()
        if state == ledger.DONE:
            event.end = time.monotonic()
            del self.pending[key]


def _address(tensor: torch.Tensor) -> tuple[str, int]:
    """A key that identifies a functional collective's result when it is waited for."""
    return "tensor", tensor.untyped_storage().data_ptr()


_recorder: Recorder | None = None


@contextmanager
def recording(writer: ledger.Writer | None = None) -> Iterator[Recorder]:
    """Run one recorder on this rank during the block."""
    global _recorder  # noqa: PLW0603 - one recorder per rank, because torch's handles have no owner
    handles.wrap(lambda: _recorder)
    before, _recorder = _recorder, Recorder(writer)
    try:
        with _recorder:
            yield _recorder
    finally:
        _recorder = before


@contextmanager
def record() -> Iterator[Bill]:
    """Collect the communication calls made inside the block.

    >>> with record() as bill:
    ...     dist.all_reduce(tensor)
    >>> bill.sent_bytes, bill.kinds
    """
    bill = Bill()
    if _recorder is None:
        with recording() as recorder:
            recorder.bills.append(bill)
            yield bill
        return
    bills = _recorder.bills
    bills.append(bill)
    try:
        yield bill
    finally:
        bills[:] = [other for other in bills if other is not bill]
