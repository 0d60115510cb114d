"""Read the traffic between ranks from their packets, in the supervisor, outside every rank.

A rank can claim anything about what it sent, but its packets show what it really sent. Before the ranks start, the
supervisor opens a tap on the job's loopback; after they end, it reassembles the streams and reads gloo's frames (see
`frames`) in order. Linux only, inside the job's network namespace.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress

from autograder.jobs import frames

WORLD = -1  # the group of all ranks, among the groups of a request
_ALL_PROTOCOLS, _PACKET_LEVEL = 3, 263
_RING, _STATISTICS, _VERSION, _IGNORE_OUTGOING = 5, 6, 10, 23
_BLOCK, _NUM_BLOCKS, _NEVER = 1 << 20, 4, 10**9  # a ring of 4 MB; no timeout closes its blocks
_BYTES_SENT, _NOT_SENT = 200, 144  # offsets in the kernel's tcp_info
_SYN = 0x02


class Tap:
    """A packet listener on the loopback. Open it before the ranks start, close it in each rank, read it afterwards."""

    def __init__(self) -> None:
        self._socket = socket.socket(17, socket.SOCK_DGRAM, 0)  # AF_PACKET, starting at the network header
        self._socket.setsockopt(_PACKET_LEVEL, _VERSION, 2)  # version 3: packets are stored one after another
        ring = struct.pack("7I", _BLOCK, _NUM_BLOCKS, 2048, _BLOCK // 2048 * _NUM_BLOCKS, _NEVER, 0, 0)
        self._socket.setsockopt(_PACKET_LEVEL, _RING, ring)
        self._socket.setsockopt(_PACKET_LEVEL, _IGNORE_OUTGOING, 1)
        self._socket.bind(("lo", _ALL_PROTOCOLS))
        self.notes_out, self.notes_in = os.pipe()
        self._noted: dict[tuple[int, int], tuple[int, int, int]] = {}  # rank, bytes sent before, group
        self._lost = 0
        self.num_noted = 0  # ranks that were confined, known after `read`

    def close(self) -> None:
        """Close the tap and the pipe of notes."""
        self._socket.close()
        for descriptor in (self.notes_out, self.notes_in):
            with suppress(OSError):
                os.close(descriptor)

    def keep_only_notes(self) -> None:
        """In a rank: keep only the writing end, for its one note."""
        self._socket.close()
        os.close(self.notes_out)

    def note_sockets(self, rank: int, groups: Mapping[tuple[int, int], int]) -> None:
        """In a rank, before any student code: note its connections' ports, the bytes sent so far, and their groups.

        `groups` maps the ports of a connection to its group; connections that are not listed belong to the world.
        """
        own = [(*ports(one), sent_so_far(one), groups.get(ports(one), WORLD)) for one in own_connections()]
        os.write(self.notes_in, json.dumps([rank, own]).encode() + b"\n")
        os.close(self.notes_in)

    def read(self) -> tuple[list, list] | None:
        """Return `frames.rows` and `frames.calls` of the traffic since the notes; None if packets were lost.

        Bytes that are not a frame, or not from a connection between two ranks, get a separate row of unknown kind.
        """
        streams = {ports: frames.Stream(end) for ports, end in self._read_notes().items()}
        strange: Counter[tuple[int, int]] = Counter()
        seen: list[frames.Frame] = []
        for found, place, data in self._data():
            stream = streams.get(found)
            if stream is None:
                strange[found] += len(data)
            elif not stream.put(place, data):
                return None
            else:
                seen += stream.frames()
        self._lost += struct.unpack_from("I", self._socket.getsockopt(_PACKET_LEVEL, _STATISTICS, 8), 4)[0]
        if self._lost:
            return None
        unknown = [(stream.end.source, stream.end.target, stream.rest()) for stream in streams.values()]
        unknown += [(-1, -1, num_bytes) for num_bytes in strange.values()]
        rows = [[source, target, frames.UNKNOWN, 1, num] for source, target, num in unknown if num]
        return frames.rows(seen) + rows, frames.calls(seen)

    def all_reduced(self) -> list[int]:
        """The bytes that each all-reduce has carried so far, in order, while ranks still run."""
        rows_and_calls = self.read()
        calls = rows_and_calls[1] if rows_and_calls is not None else []
        totals = {(group, number): total for _, kind, group, number, *_, total in calls if kind == "all_reduce"}
        return [totals[place] for place in sorted(totals)]

    def _read_notes(self) -> dict[tuple[int, int], frames.End]:
        """Each end of each connection that both its ranks have noted, by (own port, peer's port).

        Both ports are needed to identify an end: Linux can give two ranks the same port if their peers' ports differ.
        """
        os.set_blocking(self.notes_out, False)
        with suppress(BlockingIOError):
            for line in os.read(self.notes_out, 1 << 16).splitlines():
                rank, sockets = json.loads(line)
                self.num_noted += 1
                self._noted |= {(own, peer): (rank, sent, group) for own, peer, sent, group in sockets}
        return {
            (own, peer): frames.End(rank, self._noted[peer, own][0], group, begin)
            for (own, peer), (rank, begin, group) in self._noted.items()
            if (peer, own) in self._noted
        }

    def _data(self) -> Iterator[tuple[tuple[int, int], int, bytes]]:
        """(ports, position in the stream, bytes) of each packet that carries data, in order."""
        first: dict[tuple[int, int], int] = {}
        for packet in self._packets():
            if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
                yield (-1, -1), 0, packet
                continue
            at = (packet[0] & 15) * 4
            source, target, sequence = struct.unpack_from("!HHI", packet, at)
            data = packet[at + (packet[at + 12] >> 4) * 4 :]
            if packet[at + 13] & _SYN:
                first[source, target] = sequence + 1
            elif data and (source, target) in first:
                yield (source, target), (sequence - first[source, target]) % (1 << 32), data

    def _packets(self) -> Iterator[bytes]:
        """The packets in the ring, in order. No packets arrive any more, so partly filled blocks can be read too."""
        with mmap.mmap(self._socket.fileno(), _BLOCK * _NUM_BLOCKS, mmap.MAP_SHARED, mmap.PROT_READ) as ring:
            for start in range(0, len(ring), _BLOCK):
                num_packets, at = struct.unpack_from("2I", ring, start + 12)
                at += start
                for _ in range(num_packets):
                    following, _, _, kept = struct.unpack_from("4I", ring, at)
                    (network,) = struct.unpack_from("H", ring, at + 26)
                    yield ring[at + network : at + network + kept]
                    at += following


def ports(connection: socket.socket) -> tuple[int, int]:
    """The ports of this end of a connection and of its peer."""
    return connection.getsockname()[1], connection.getpeername()[1]


def ports_of_connections() -> set[tuple[int, int]]:
    """The ports of every connection of this process."""
    return {ports(one) for one in own_connections()}


def own_connections() -> Iterator[socket.socket]:
    """Yield a duplicate of each TCP connection of this process, open until the next iteration."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family == socket.AF_INET and one.type == socket.SOCK_STREAM:
                    one.getpeername()  # raises OSError for a listener
                    yield one


def sent_so_far(connection: socket.socket) -> int:
    """Bytes that this end of a connection has handed to the kernel, by the kernel's own count."""
    facts = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    sent, again = struct.unpack_from("2Q", facts, _BYTES_SENT)
    (waiting,) = struct.unpack_from("I", facts, _NOT_SENT)
    return sent - again + waiting
