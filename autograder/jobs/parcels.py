"""Anonymous files for data that the zygote must not read: answers and inputs on the way in, results on the way out.

Whatever a program reads can stay in its memory for a long time, even when freed, and every later job is a copy of that
memory. The zygote therefore moves a submission's bytes from its pipe into a file, and results back, without reading
them. Only the job opens these files, and only the rank that an input belongs to opens that input.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Callable

LENGTH = struct.Struct("<Q")
_READ = 1 << 20
_splice: Callable[[int, int, int], int] | None = getattr(os, "splice", None)
_sendfile: Callable[..., int] | None = getattr(os, "sendfile", None) if _splice else None


def anonymous() -> int:
    """Create a file that has no path."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("parcel")
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    return descriptor


def receive(source: int) -> int:
    """Move one part, a length and its bytes, from a pipe into a new file; returns its descriptor."""
    (length,) = LENGTH.unpack(read_exactly(source, LENGTH.size) or bytes(LENGTH.size))
    target = anonymous()
    while length:
        moved = _splice(source, target, length) if _splice else _copy(source, target, length)
        if moved == 0:
            raise EOFError("the judge ended in the middle of a request")
        length -= moved
    return target


def send(target: int, parcel: int) -> None:
    """Write a file to a pipe, preceded by its length."""
    length = os.fstat(parcel).st_size
    write_all(target, LENGTH.pack(length))
    os.lseek(parcel, 0, os.SEEK_SET)
    at = 0
    while at < length:
        at += _sendfile(target, parcel, at, length - at) if _sendfile else _copy(parcel, target, length - at)


def _copy(source: int, target: int, length: int) -> int:
    data = os.read(source, min(_READ, length))
    write_all(target, data)
    return len(data)


def content(parcel: int) -> bytes:
    """All bytes of a file, independent of its shared read position."""
    length, data = os.fstat(parcel).st_size, bytearray()
    while len(data) < length:
        data += os.pread(parcel, min(_READ, length - len(data)), len(data))
    return bytes(data)


def read_exactly(source: int, length: int) -> bytes | None:
    """Read `length` bytes from a pipe; None at its end."""
    data = bytearray()
    while len(data) < length:
        part = os.read(source, min(_READ, length - len(data)))
        if not part:
            return None
        data += part
    return bytes(data)


def write_all(target: int, data: bytes) -> None:
    """Write all of `data`."""
    view = memoryview(data)
    while view:
        view = view[os.write(target, view[:_READ]) :]
