"""Count bytes from rank to rank where packets cannot be read, from the kernel's byte count of each connection.

Reading packets needs a privilege that a level-2 container does not have, but a process that holds a connection may
query how many bytes it has sent. So before any student code, each rank hands the supervisor duplicates of its
connections. The count includes the headers of gloo's frames and does not distinguish messages from collectives.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autograder.jobs import wire

MOST_CONNECTIONS = 253  # Linux's limit of descriptors in one message


@dataclass
class SendingEnd:
    """The sending end of one of a rank's connections, and the bytes that it had sent before student code."""

    rank: int
    ports: tuple[int, int]  # its own and its peer's: both are needed to identify an end, see wire.Tap
    before: int
    end: socket.socket
    process: int  # a descriptor that becomes readable when the rank ends; -1 if it has ended already


class Connections:
    """Replaces `wire.Tap` at level 2; call `look` often while ranks run."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._ours.setblocking(False)
        self._held: list[SendingEnd] = []
        self._owners: dict[tuple[int, int], int] = {}  # of (own port, peer's port)
        self._sent: list[tuple[int, tuple[int, int], int]] = []  # source rank, its ports, bytes
        self.num_noted = 0

    def close(self) -> None:
        """Close all connections."""
        for one in (self._ours, self._theirs, *(held.end for held in self._held)):
            one.close()

    def keep_only_notes(self) -> None:
        """In a rank: keep only the socket for handing over its own connections."""
        self._ours.close()

    def note_sockets(self, rank: int, groups: Mapping[tuple[int, int], int]) -> None:
        """In a rank, before any student code: hand over its connections and the bytes that each has sent so far.

        `groups` is ignored, because bytes are counted per pair of ranks.
        """
        # not one.dup(): Python's version makes the connection blocking, and so the library's
        ends = [socket.socket(fileno=os.dup(one.fileno())) for one in wire.own_connections()][:MOST_CONNECTIONS]
        facts = [(*wire.ports(end), wire.sent_so_far(end)) for end in ends]
        note = json.dumps([rank, os.getpid(), facts]).encode()
        socket.send_fds(self._theirs, [note], [end.fileno() for end in ends])
        for one in (self._theirs, *ends):
            one.close()

    def look(self) -> None:
        """Receive new connections, and close those of ranks that have ended, because their peers wait for that."""
        while self._take_one():
            pass
        gone = [held for held in self._held if held.process < 0 or select.select([held.process], [], [], 0)[0]]
        for held in gone:
            self._count(held)
        self._held = [held for held in self._held if held not in gone]

    def read(self) -> tuple[list[list[Any]], None]:
        """[[source rank, target rank, "bytes", 0, bytes], ...] since the handover, and None: calls are unknown."""
        self.look()
        for held in self._held:
            self._count(held)
        self._held = []
        found: Counter[tuple[int, int]] = Counter()
        for source, (own, peer), num_bytes in self._sent:
            found[source, self._owners.get((peer, own), -1)] += num_bytes
        return [[*key, "bytes", 0, num_bytes] for key, num_bytes in found.items()], None

    def all_reduced(self) -> None:
        """Return None, because byte counts do not show the kind of a call."""

    def _take_one(self) -> bool:
        try:
            note, ends, _, _ = socket.recv_fds(self._ours, 1 << 16, MOST_CONNECTIONS)
        except BlockingIOError:
            return False
        rank, pid, facts = json.loads(note)
        self.num_noted += 1
        for descriptor, (own_port, peer_port, sent) in zip(ends, facts, strict=True):
            self._owners[own_port, peer_port] = rank
            self._held.append(
                SendingEnd(rank, (own_port, peer_port), sent, socket.socket(fileno=descriptor), _watch(pid))
            )
        return True

    def _count(self, held: SendingEnd) -> None:
        self._sent.append((held.rank, held.ports, wire.sent_so_far(held.end) - held.before))
        held.end.close()
        if held.process >= 0:
            os.close(held.process)


def _watch(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
