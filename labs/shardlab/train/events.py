"""Numbers for TensorBoard: a file of events, written without TensorBoard.

The format is small and has not changed since 2016: records of TensorFlow's TFRecord (length, checksum, bytes, checksum)
that hold an `Event` in protobuf's encoding (tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto).
TensorBoard's own writer would bring protobuf, gRPC and twenty packages more for these sixty lines.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

CASTAGNOLI = 0x82F63B78  # the polynomial of CRC-32C, reflected
VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # protobuf's wire types


class EventWriter:
    """Appends scalars to a new file of a folder: `tensorboard --logdir FOLDER` shows them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"
        self._file = (folder / name).open("ab")
        self._write(_field(1, DOUBLE, struct.pack("<d", time.time())) + _text(3, "brain.Event:2"))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of one step, by name."""
        self._write(scalars_event(time.time(), step, values))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, event: bytes) -> None:
        self._file.write(record(event))
        self._file.flush()


def record(data: bytes) -> bytes:
    """Some bytes as a record: their length and its checksum, the bytes and theirs."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked(length)) + data + struct.pack("<I", _masked(data))


def scalars_event(wall_time: float, step: int, values: Mapping[str, float]) -> bytes:
    """An Event: 1 wall_time, 2 step, 5 summary; in it for each number 1 value: 1 tag, 2 simple_value."""
    summary = b"".join(
        _field(1, BYTES, _text(1, tag) + _field(2, FLOAT, struct.pack("<f", value))) for tag, value in values.items()
    )
    return (
        _field(1, DOUBLE, struct.pack("<d", wall_time)) + _field(2, VARINT, _varint(step)) + _field(5, BYTES, summary)
    )


def crc32c(data: bytes) -> int:
    """CRC-32 with Castagnoli's polynomial (RFC 3720, section 12.1)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ CASTAGNOLI * (byte & 1)  # noqa: PLW2901 - eight shifts of one number
        table.append(byte)
    return table


_TABLE = _table()


def _masked(data: bytes) -> int:
    """The checksum as TFRecord stores it: turned by 15 bits, and a constant added."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _field(number: int, wire: int, content: bytes) -> bytes:
    return _varint(number << 3 | wire) + (_varint(len(content)) if wire == BYTES else b"") + content


def _text(number: int, text: str) -> bytes:
    return _field(number, BYTES, text.encode())


def _varint(number: int) -> bytes:
    """Seven bits per byte, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
