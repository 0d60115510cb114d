"""The supervisor's view of one forked rank: its prints, its message, how it ended, and where it hangs."""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress

from shardlab.ranks import inside
from shardlab.ranks.call import OUTPUT_LIMIT, RankEnd

Emit = Callable[[int, str], None]
MOST_RESULT_BYTES = 4 << 30


class Watched:
    """The supervisor's view of one forked rank: a process, two pipes, and a file for its stacks."""

    def __init__(self, pid: int, rank: int, output: int, result: int, stack: int) -> None:
        self.pid, self.rank = pid, rank
        self.output, self.result, self.stack = output, result, stack
        self.message = bytearray()
        self.printed = 0
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.end: RankEnd | None = None
        self.exit_code: int | None = None

    def hear(self, data: bytes) -> None:
        """Add data to the rank's message; once that is complete, set how the rank ended."""
        if self.end is not None:
            return  # ignore anything after the complete message
        self.message += data
        head = inside.LENGTH.size
        if len(self.message) < head:
            return
        (length,) = inside.LENGTH.unpack_from(self.message)
        if length > MOST_RESULT_BYTES:
            self.end = RankEnd(error=f"ValueError: a result of {length:,} bytes is too large: return less than 4 GiB")
        elif len(self.message) >= head + length:
            kind, content = self.message[head : head + 1], memoryview(self.message)[head + 1 : head + length]
            if kind == inside.RESULT:
                self.end = RankEnd(result=bytes(content))
            else:
                self.end = RankEnd(error=bytes(content).decode(errors="replace"))


def read(selector: selectors.BaseSelector, rank: Watched, pipe: str, emit: Emit) -> bool:
    """Read from a pipe; returns False if it was empty or closed."""
    descriptor = rank.output if pipe == "output" else rank.result
    try:
        data = os.read(descriptor, 1 << 20)
    except BlockingIOError:
        return False
    except OSError:
        data = b""
    if not data:
        with suppress(KeyError):
            selector.unregister(descriptor)
        return False
    if pipe == "result":
        rank.hear(data)
        return True
    _show(rank, data, emit)
    return True


def _show(rank: Watched, data: bytes, emit: Emit) -> None:
    """Emit a rank's prints up to the limit, and report once that the rest is dropped."""
    room = OUTPUT_LIMIT - rank.printed
    rank.printed += len(data)
    if room > 0:
        emit(rank.rank, rank.decoder.decode(data[:room]))
    if room >= 0 and len(data) > room:
        emit(rank.rank, f"\n[rank {rank.rank} printed more than {OUTPUT_LIMIT // 1024} KB: the rest is dropped]\n")


def read_all(selector: selectors.BaseSelector, rank: Watched, emit: Emit) -> None:
    """Read what a rank printed before it ended; only a few times, because it may still be printing."""
    for _ in range(8):
        if not read(selector, rank, "output", emit):
            return


def notice_exit(rank: Watched) -> None:
    """Reap a rank that exited on its own; a message that it completed before still counts."""
    if rank.end is not None or rank.exit_code is not None:
        return
    pid, status = os.waitpid(rank.pid, os.WNOHANG)
    if pid == 0:
        return
    rank.exit_code = os.waitstatus_to_exitcode(status)
    with suppress(OSError):
        while data := os.read(rank.result, 1 << 20):
            rank.hear(data)
    rank.end = rank.end or RankEnd(exit_code=rank.exit_code)


def anonymous_file() -> int:
    """A file that appears in no folder (on Linux it is only in memory), mode 0o600, for reading and writing."""
    if sys.platform == "linux":
        return os.memfd_create("shardlab", 0)
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    return descriptor


def ask_for_stacks(ranks: list[Watched]) -> None:
    """Have faulthandler write where each rank is, which takes a moment."""
    for rank in ranks:
        with suppress(ProcessLookupError):
            os.kill(rank.pid, signal.SIGUSR1)
    if ranks:
        time.sleep(0.15)


def content_of(descriptor: int) -> str:
    """The first 64 KB of a file."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, 1 << 16).decode(errors="replace")
