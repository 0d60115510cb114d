"""The parts of a check: cases, randomly drawn inputs, and a comparison of the replies with expected values.

This is the trusted side. Inputs go into the sandbox and plain values come back; expected values never leave.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch

from autograder.checks import packets
from autograder.checks.difference import wrong_number, wrong_property
from autograder.checks.packets import ObservedCall, size
from autograder.jobs.message import Job, Request

Case = dict[str, Any]
MEMORY_BYTES = 8 << 30  # address space of one rank; torch alone reserves two
MEMORY_ALL_BYTES = 2 << 30  # memory in use by all ranks together, beyond what they inherit
_LOST_PEER = re.compile(r"[Cc]onnection (closed|reset|refused)|Broken pipe")  # follows from the end of another rank


@dataclass(frozen=True)
class Task:
    """One case, ready to run: `inputs[rank]` is {"args", "groups"}, or None for a rank that only watches.

    `groups` lists the ranks of each process group to create (None: the world); `expected` and `facts` stay here.
    `reads_calls=False`: too much data is sent to read its packets, so only the kernel's byte counts are available.
    """

    call: str | None
    ranks: int
    inputs: list
    expected: list
    groups: list = field(default_factory=lambda: [None])
    facts: dict[str, Any] = field(default_factory=dict)
    reads_calls: bool = True
    keeps_inputs: bool = False  # the function must not change its input tensors
    returns_inputs: bool = False  # with keeps_inputs: the result may be an input or a view of one
    keys: dict[str, Any] | None = None  # numbers that `jobs.keys` hands to modules which request them


@dataclass(frozen=True)
class Reply:
    """The reply to one case.

    `ranks[r]` is what rank r reports about itself, so it is only a claim. Everything else was measured outside the
    ranks: the bytes on the loopback; `wire`, rows of [source, target, kind, frames, bytes], where kind is "message" or
    a collective; and `calls[r]`, the calls with which rank r sent and received. `wire` and `calls` are None if packets
    could not be read; `unread` is true if that is because there were too many.
    `asked[r]`: for a module with keys, how many all-reduces rank r had begun at each request (see `jobs.keys`).
    `peak_bytes[r]`: for a check that `trains`, rank r's peak memory above what it started with.
    """

    ranks: list[dict[str, Any]]
    report: str | None
    loopback_bytes: int
    printed: str
    wire: list[list[Any]] | None = None
    peak_bytes: Sequence[int | None] = ()
    timed_out: bool = False
    calls: Sequence[Sequence[ObservedCall]] | None = None
    unread: bool = False
    reads_calls: bool = True  # copied from the task
    asked: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class Check:
    """The check of one exercise: its name and points, the names a student defines, its cases and their judge.

    `parts` splits the points: {name: share}. A case belongs to the part that it names under "part", or to the only one.
    `judge(case, task, reply)` returns a sentence for the student, or None if everything is right.
    """

    exercise: str
    points: float
    names: tuple[str, ...]
    public: tuple[Case, ...]
    draw: Callable[[Random], list[Case]]
    make: Callable[[Case, Random], Task]
    judge: Callable[[Case, Task, Reply], str | None]
    program: str = "on_rank"
    masked: tuple[str, ...] = ("shardlab.collectives",)
    timeout: float = 6.0
    parts: dict[str, float] = field(default_factory=lambda: {"": 1.0})
    hints: tuple[str, ...] = ()
    trains: bool = False  # build modules for it (see `autograder.checks.training`) and measure memory
    optional: bool = False  # its points are extra credit: the core of a week is 100%
    makes_groups: bool = False  # the answer creates process groups, whose store can carry data that packets do not show

    def job(self, task: Task, answer: dict[str, Any]) -> Job:
        """The job that runs a task in the sandbox."""
        request = Request(
            self.program,
            ranks=task.ranks,
            timeout=self.timeout,
            memory_bytes=MEMORY_BYTES,
            memory_all_bytes=MEMORY_ALL_BYTES,
            functions=list(self.names) if task.call is None else [task.call],
            call=task.call,
            groups=task.groups,
            masked=list(self.masked),
            seals=not self.makes_groups,
            trains=self.trains,
            reads_calls=task.reads_calls,
            keeps_inputs=task.keeps_inputs,
            returns_inputs=task.returns_inputs,
        )
        return Job(request, answer, task.inputs, task.keys)


# ---- feedback that all checks share ----------------------------------------------------------------------------------


def trouble(reply: Reply, allowed: Sequence[str] | None = None) -> str | None:
    """Describe what prevented a result: a hang, a crash, an exception or a forbidden call."""
    for rank, reported in enumerate(reply.ranks):
        if "refused" in reported:
            return str(reported["refused"])
        if "raised" in reported and _last_line(reported["raised"]).startswith("NotImplementedError"):
            return "Not answered yet: replace `raise NotImplementedError(...)` with your code."
        if "raised" in reported and not (reply.report and _LOST_PEER.search(_last_line(reported["raised"]))):
            return f"Rank {rank} raised an exception.\n{reported['raised']}"
    if reply.report:
        return reply.report
    if reply.unread:
        return f"The ranks sent each other {size(reply.loopback_bytes)}, too much to inspect: send far less."
    return _forbidden_call(reply, allowed) or _more_than_claimed(reply, allowed)


def _forbidden_call(reply: Reply, allowed: Sequence[str] | None) -> str | None:
    """Report a call of a kind that the exercise does not allow, if calls are read or compared."""
    if allowed is None or not reply.reads_calls:
        return None
    if reply.calls is not None:
        return packets.other_kind(reply.wire or [], allowed)
    for rank, reported in enumerate(reply.ranks):
        if forbidden := sorted(set(_texts(reported.get("kinds"))) - set(allowed)):
            return packets.not_made_of(rank, forbidden[0], allowed)
    return None


def _more_than_claimed(reply: Reply, allowed: Sequence[str] | None) -> str | None:
    """Report a byte count that differs from the ranks' own bills, if bytes are counted but no calls are read."""
    if reply.calls is not None or reply.wire is None:
        return None
    bills = [claimed_calls(reply, rank) for rank in range(len(reply.ranks))]
    return packets.other_than_billed(reply.wire, bills, only_messages=allowed is not None)


def _last_line(text: Any) -> str:
    return str(text).strip().rsplit("\n", 1)[-1]


def wrong_tensor(
    rank: int, reported: dict[str, Any], expected: torch.Tensor, *, what: str = "the result", relative: float = 0.0
) -> str | None:
    """Compare a rank's result with the expected tensor: type, shape, dtype, then every number, by default exactly.

    Most checks use small whole numbers as inputs, so sums are exact in any order and dtype and need no tolerance.
    """
    value = reported.get("value")
    if not isinstance(value, dict) or "plain" not in value:
        kind = value.get("not_plain", "nothing") if isinstance(value, dict) else "nothing"
        return f"Rank {rank} returns {kind}, not a tensor."
    return wrong_value(rank, value["plain"], expected, what, relative=relative)


def wrong_value(
    rank: int, received: Any, expected: torch.Tensor, what: str = "the result", *, relative: float = 0.0
) -> str | None:
    """Like `wrong_tensor`, for an unwrapped value; `relative` is a tolerance, as a fraction of the largest number."""
    if not isinstance(received, torch.Tensor):
        return f"On rank {rank}, {what} is {_short(received)}, not a tensor."
    if received.dtype != expected.dtype:
        return wrong_property(rank, what, "dtype", _dtype(expected), _dtype(received))
    if received.shape != expected.shape:
        return wrong_property(rank, what, "shape", str(list(expected.shape)), str(list(received.shape)))
    if not expected.numel():
        return None  # an empty tensor has no largest number
    if relative:
        differs = ~((received - expected).abs() <= relative * expected.abs().max())  # negated, so that NaN is wrong
    else:
        differs = (received != expected) & ~(received.isnan() & expected.isnan())
    return wrong_number(rank, what, differs, expected, received) if differs.any() else None


def touched_input(rank: int, reported: dict[str, Any], task: Task) -> str | None:
    """Report whether the caller's tensors were changed, or the result is a view of them.

    For a task that `keeps_inputs`, the supervisor compared them (see `jobs.inputs`); otherwise the rank reports it.
    """
    touched = (
        reported["touched"] if task.keeps_inputs and "touched" in reported else _says_touched(rank, reported, task)
    )
    if touched is None:
        return f"Rank {rank} exited before its inputs could be compared. Return from the function instead."
    if touched:
        return f"Rank {rank} changes the tensors it was given; the caller still needs them. Work on a copy."
    if reported.get("shares_input") is not False:  # leaving the flag out is detected by comparing values
        return f"Rank {rank} returns a view of its input, so changing one changes the other. Return a new tensor."
    return None


def _says_touched(rank: int, reported: dict[str, Any], task: Task) -> bool:
    given = _flat(task.inputs[rank]["args"])
    kept = _flat(reported.get("args"))
    return len(given) != len(kept) or any(
        a.dtype != b.dtype or a.shape != b.shape or not torch.equal(a, b) for a, b in zip(given, kept, strict=True)
    )


def sent(reply: Reply, rank: int, kind: str = "send") -> list[int]:
    """Payload bytes of each call of one kind that a rank made."""
    return [call.payload_bytes for call in calls_of(reply, rank) if call.kind == kind]


def calls_of(reply: Reply, rank: int) -> list[ObservedCall]:
    """One rank's calls in order, read from the packets of its job, outside the rank.

    If packets cannot be read, this is the rank's own bill, which `trouble` has compared with the byte count. Raises
    ValueError if the task turned packet reading off, because nothing would then verify the bill.
    """
    if not reply.reads_calls:
        raise ValueError("the packets of this case are not read: judge it by bytes, or let its task read them")
    return list(reply.calls[rank]) if reply.calls is not None else claimed_calls(reply, rank)


def claimed_calls(reply: Reply, rank: int) -> list[ObservedCall]:
    """The calls that one rank claims to have made."""
    claimed = reply.ranks[rank].get("events")
    events = claimed if isinstance(claimed, list) else []
    return [
        ObservedCall(kind, members, peer, payload_bytes, sent_bytes, number)
        for number, (kind, members, peer, payload_bytes, sent_bytes) in enumerate(filter(_is_event, events))
    ]


def _is_event(claimed: Any) -> bool:
    return isinstance(claimed, list) and len(claimed) == 5


def carried_too_little(reply: Reply, payload_bytes: int) -> str | None:
    """Report whether fewer bytes were sent than the answer needs, counted outside the sandbox with headers."""
    if 0 <= reply.loopback_bytes < payload_bytes:
        return (
            f"The ranks sent each other only {size(reply.loopback_bytes)}; at least {size(payload_bytes)} are needed. "
            "A rank can only get another rank's numbers in a message."
        )
    return None


def carried_too_much(reply: Reply, payload_bytes: int) -> str | None:
    """Report whether more bytes were sent than the answer needs, allowing 64 KB per rank for headers and setup."""
    most = 1.15 * payload_bytes + 65536 * max(1, len(reply.ranks))
    if reply.loopback_bytes > most:
        return f"The ranks sent each other {size(reply.loopback_bytes)}, but {size(payload_bytes)} are enough."
    return None


def close(received: Any, expected: float, relative: float = 1e-6) -> bool:
    """Whether `received` is a plain number within `relative` of the expected one."""
    if type(received) not in (int, float) or abs(received) > sys.float_info.max:
        return False
    return math.isfinite(received) and math.isclose(received, expected, rel_tol=relative)


def whole_numbers(rng: Random, num: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """`num` whole numbers from -8 to 8: sums over up to 16 ranks are exact even in bfloat16."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    return torch.randint(-8, 9, (num,), generator=generator).to(dtype)


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _flat(item)]
    return []


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
