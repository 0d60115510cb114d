"""What travelled between the ranks, read from the packets themselves by the supervisor, outside every rank.

A rank can claim anything about what it sent. Its packets cannot: before the ranks start, the supervisor opens a tap on
the job's own loopback; after they end, it puts the streams together again and reads gloo's frames. Each frame says how
long it is and which call it belongs to. Linux, inside the job's own network namespace.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

# gloo (types.h, slot prefixes): the first byte of a frame's slot names the collective; 0 is a plain message
KINDS = (
    "message",
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
_DATA = (0, 1)  # opcodes that carry bytes: a buffer, an unbound buffer
_ALL_PROTOCOLS, _PACKET_LEVEL = 3, 263
_RING, _STATISTICS, _VERSION, _IGNORE_OUTGOING = 5, 6, 10, 23
_BLOCK, _NUM_BLOCKS, _NEVER = 1 << 20, 4, 10**9  # a ring of 4 MB; blocks are never closed by the clock
_BYTES_SENT, _NOT_SENT = 200, 144  # offsets in the kernel's tcp_info
_SYN = 0x02


class Tap:
    """A listener on the loopback. Open it before the ranks start, close it in each of them, read it after they end."""

    def __init__(self) -> None:
        self._socket = socket.socket(17, socket.SOCK_DGRAM, 0)  # AF_PACKET, from the network's header on
        self._socket.setsockopt(_PACKET_LEVEL, _VERSION, 2)  # the third version: packets lie one behind the other
        ring = struct.pack("7I", _BLOCK, _NUM_BLOCKS, 2048, _BLOCK // 2048 * _NUM_BLOCKS, _NEVER, 0, 0)
        self._socket.setsockopt(_PACKET_LEVEL, _RING, ring)
        self._socket.setsockopt(_PACKET_LEVEL, _IGNORE_OUTGOING, 1)
        self._socket.bind(("lo", _ALL_PROTOCOLS))
        self.notes_out, self.notes_in = os.pipe()
        self.num_noted = 0  # ranks that were shut in, known after `read`

    def close(self) -> None:
        """Give up tap and notes."""
        self._socket.close()
        for descriptor in (self.notes_out, self.notes_in):
            with suppress(OSError):
                os.close(descriptor)

    def keep_only_notes(self) -> None:
        """In a rank: it may write its one note, and hears nothing."""
        self._socket.close()
        os.close(self.notes_out)

    def note_sockets(self, rank: int) -> None:
        """In a rank, before any student code: say which ports are this rank's and how much they have sent so far."""
        os.write(self.notes_in, json.dumps([rank, _own_ports()]).encode() + b"\n")
        os.close(self.notes_in)

    def read(self) -> list | None:
        """[[source rank, target rank, kind, frames, bytes], ...] since the notes; None if that cannot be told."""
        owners, begins = self._read_notes()
        streams = self._streams()
        if streams is None:
            return None
        found: Counter[tuple[int, int, str]] = Counter()
        frames: Counter[tuple[int, int, str]] = Counter()
        for (source, target), stream in streams.items():
            ranks = owners.get((source, target), -1), owners.get((target, source), -1)
            if -1 in ranks:
                kinds = [("unknown", len(stream))] if stream else []
            else:
                kinds = _frames(stream, begins[source, target])
            for kind, num_bytes in kinds:
                found[*ranks, kind] += num_bytes
                frames[*ranks, kind] += 1
        return [[*key, frames[key], num_bytes] for key, num_bytes in found.items()]

    def _read_notes(self) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
        """Of each end of each connection, (own port, peer's port): its rank, and the bytes it had sent.

        Only both ports together name an end: Linux gives two ranks the same port when their peers' ports differ.
        """
        owners: dict[tuple[int, int], int] = {}
        begins: dict[tuple[int, int], int] = {}
        os.set_blocking(self.notes_out, False)
        with suppress(BlockingIOError):
            for line in os.read(self.notes_out, 1 << 16).splitlines():
                rank, sockets = json.loads(line)
                self.num_noted += 1
                for own, peer, sent in sockets:
                    owners[own, peer] = rank
                    begins[own, peer] = sent
        return owners, begins

    def _streams(self) -> dict[tuple[int, int], bytearray] | None:
        """Each direction of each connection as the bytes that went that way; None if packets were lost."""
        first: dict[tuple[int, int], int] = {}
        streams: dict[tuple[int, int], bytearray] = {}
        for packet in self._packets():
            if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
                streams.setdefault((-1, -1), bytearray()).extend(packet)
                continue
            at = (packet[0] & 15) * 4
            source, target, sequence = struct.unpack_from("!HHI", packet, at)
            data = packet[at + (packet[at + 12] >> 4) * 4 :]
            if packet[at + 13] & _SYN:
                first[source, target] = sequence + 1
                streams[source, target] = bytearray()
            elif len(data) and (source, target) in first:
                stream, place = streams[source, target], (sequence - first[source, target]) % (1 << 32)
                if place > len(stream):
                    return None
                stream[place : place + len(data)] = data
        (lost,) = struct.unpack_from("I", self._socket.getsockopt(_PACKET_LEVEL, _STATISTICS, 8), 4)
        return None if lost else streams

    def _packets(self) -> Iterator[bytes]:
        """What lies in the ring, in order. Nobody writes any more: blocks that are not full can be read too."""
        with mmap.mmap(self._socket.fileno(), _BLOCK * _NUM_BLOCKS, mmap.MAP_SHARED, mmap.PROT_READ) as ring:
            for start in range(0, len(ring), _BLOCK):
                num_packets, at = struct.unpack_from("2I", ring, start + 12)
                at += start
                for _ in range(num_packets):
                    following, _, _, kept = struct.unpack_from("4I", ring, at)
                    (network,) = struct.unpack_from("H", ring, at + 26)
                    yield ring[at + network : at + network + kept]
                    at += following


def _frames(stream: bytearray, at: int) -> list[tuple[str, int]]:
    """gloo's frames that carry data, as (kind, bytes); whatever is no frame is "unknown"."""
    found = []
    while at < len(stream):
        if len(stream) - at < _FRAME.size:
            return [*found, ("unknown", len(stream) - at)]
        whole, opcode, slot, *_ = _FRAME.unpack_from(stream, at)
        kind = slot >> 56
        if not _FRAME.size <= whole <= len(stream) - at or opcode > 3 or kind >= len(KINDS):
            return [*found, ("unknown", len(stream) - at)]
        if opcode in _DATA:
            found.append((KINDS[kind], whole - _FRAME.size))
        at += whole
    return found


def _own_ports() -> list[tuple[int, int, int]]:
    """(own port, peer's port, bytes sent) of each connection of this process."""
    return [(one.getsockname()[1], one.getpeername()[1], sent_so_far(one)) for one in own_connections()]


def own_connections() -> Iterator[socket.socket]:
    """A duplicate of each TCP connection of this process, open until the next one is asked for."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family == socket.AF_INET and one.type == socket.SOCK_STREAM:
                    one.getpeername()  # a listener has none
                    yield one


def sent_so_far(connection: socket.socket) -> int:
    """Bytes that this end of a connection has given to the kernel to send, by the kernel's own count."""
    facts = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    sent, again = struct.unpack_from("2Q", facts, _BYTES_SENT)
    (waiting,) = struct.unpack_from("I", facts, _NOT_SENT)
    return sent - again + waiting
