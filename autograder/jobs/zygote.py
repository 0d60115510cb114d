"""The zygote: a program with torch and shardlab imported and no secret, which forks one confined job a request.

`python -m autograder.jobs.zygote` reads requests from standard input and writes answers to standard output, each a
length and a plain message. The judge starts one per slot, inside bubblewrap where that exists.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy  # noqa: F401 - jobs find it imported
import torch
from shardlab import meter  # noqa: F401
from shardlab.ranks import transports
from shardlab.ranks.supervise import adopt_orphans, supervise

from autograder.jobs import call, confine, plain

_LENGTH = struct.Struct("<Q")
PROGRAMS: dict[str, Callable[[dict, int], bytes]] = {"on_rank": call.on_rank, "without_ranks": call.without_ranks}
KEPT_OUTPUT = 4096
MOST_OUTPUT = 20 << 20
MOST_RESULT = 1 << 30
SLACK = 15.0  # seconds that a job may take beyond its ranks' own limit


def serve(source: int, target: int, confined: bool) -> None:
    """Answer requests until the judge closes the pipe."""
    while (data := read_message(source)) is not None:
        write_message(target, _in_a_job(plain.decode(data), confined))


def read_message(source: int) -> bytes | None:
    """One message from a pipe, or None at its end."""
    head = _read_exactly(source, _LENGTH.size)
    if head is None:
        return None
    return _read_exactly(source, _LENGTH.unpack(head)[0])


def _read_exactly(source: int, length: int) -> bytes | None:
    data = bytearray()
    while len(data) < length:
        part = os.read(source, min(1 << 20, length - len(data)))
        if not part:
            return None
        data += part
    return bytes(data)


def write_message(target: int, data: bytes) -> None:
    """Write one message to a pipe."""
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(target, view[: 1 << 20]) :]


def _in_a_job(request: dict[str, Any], confined: bool) -> bytes:
    """Fork the process that leaves our namespaces; its child is the job. Read the answer, and end them both."""
    answer_out, answer_in = os.pipe()
    outer = os.fork()
    if outer == 0:
        os.close(answer_out)
        _leave_and_work(request, answer_in, confined)
    os.close(answer_in)
    deadline = time.monotonic() + request["timeout"] + SLACK
    answer = _read_until(answer_out, deadline)
    os.close(answer_out)
    with suppress(ProcessLookupError):
        os.kill(outer, 9)
    os.waitpid(outer, 0)
    return answer or plain.encode({"lost": "the job ended without an answer"})


def _read_until(source: int, deadline: float) -> bytes:
    import select

    data = bytearray()
    while len(data) < MOST_RESULT:
        ready, _, _ = select.select([source], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(source, 1 << 20) if ready else b""
        if not part:
            return bytes(data) if ready else b""
        data += part
    return b""


def _leave_and_work(request: dict[str, Any], answer: int, confined: bool) -> None:
    """1. into namespaces of our own  2. fork process 1  3. supervise the ranks there  4. answer and die."""
    confine.end_with_parent()
    inside = confined and confine.enter_namespaces()
    pid = os.fork()
    if pid:
        os.close(answer)
        os.waitpid(pid, 0)
        os._exit(0)
    confine.end_with_parent()
    try:
        if inside:
            confine.settle(request["masked"])
        else:
            os.setsid()
        adopt_orphans()
        _write_all(answer, _work(request, inside, answer))
    except BaseException as error:
        with suppress(OSError):
            _write_all(answer, plain.encode({"lost": f"{type(error).__name__}: {error}"}))
    os._exit(0)


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view[: 1 << 20]) :]


def _work(request: dict[str, Any], inside: bool, answer: int) -> bytes:
    program = PROGRAMS[request["program"]]
    printed: list[str] = []

    def emit(rank: int, text: str) -> None:
        if sum(map(len, printed)) < KEPT_OUTPUT:
            printed.append(f"[rank {rank}] {text}")

    def as_a_rank(rank: int) -> bytes:
        os.close(answer)
        for descriptor in (3, 4):  # the zygote's pipes to the judge
            with suppress(OSError):
                os.close(descriptor)
        others = [None if other != rank else mine for other, mine in enumerate(request["inputs"])]
        own: dict[str, Any] = request | {"inputs": others}
        request.clear()  # no rank finds another's input by walking over the heap
        confine.limit(seconds=own["timeout"], memory_bytes=own["memory_bytes"])
        confine.separate()
        return program(own, rank)

    outcome = supervise(
        as_a_rank,
        num_ranks=request["ranks"],
        timeout=request["timeout"],
        transport=transports.GLOO,
        emit=emit,
        most_output=MOST_OUTPUT,
        joined=request["program"] == "on_rank",
    )
    ends = [{"result": end.result, "error": end.error, "exit": end.exit_code} for end in outcome.ends]
    return plain.encode(
        {
            "ends": ends,
            "report": outcome.report,
            "timed_out": outcome.timed_out,
            "seconds": outcome.seconds,
            "loopback_bytes": confine.loopback_bytes() if inside else -1,
            "printed": "".join(printed)[:KEPT_OUTPUT],
            "inside": inside,
        }
    )


def main() -> None:
    """Move the pipes away from standard input and output, so that nothing printed gets into them, and serve."""
    os.dup2(0, 3)
    os.dup2(1, 4)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    confine.end_with_parent()
    torch.set_num_threads(1)
    serve(3, 4, confined="--confined" in sys.argv)


if __name__ == "__main__":
    main()
