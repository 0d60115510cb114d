"""Reports of eight megabytes designed to keep the judge busy: each must be decoded or refused within a second."""

from __future__ import annotations

import struct
import sys
import time
from contextlib import suppress

from autograder.jobs import plain
from benchmarks.row import Row, at_most

SIZE = 8 << 20  # bytes of one header


def measure() -> list[Row]:
    """Return the CPU seconds of the worst header; print all of them to standard error."""
    seconds = {name: _seconds(header) for name, header in _headers().items()}
    for name, one in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"{one:.3f} s  {name}", file=sys.stderr)
    return [at_most(f"worst of {len(seconds)} headers of 8 MB, s", max(seconds.values()), 1)]


def _seconds(header: bytes) -> float:
    began = time.process_time()
    with suppress(plain.NotPlain):
        plain.decode(struct.pack("<Q", len(header)) + header)
    return time.process_time() - began


def _filled(unit: bytes) -> bytes:
    """Return a list with as many copies of a unit as size and the decoder's limit on marks allow: the worst case."""
    before, after = b'{"list":[', b"]}"
    most = (SIZE - len(before) - len(after)) // len(unit)
    marks = sum(unit.count(mark) for mark in (b",", b"{", b"["))
    if marks:
        most = min(most, (plain.MOST_MARKS - 4) // marks)
    return before + (unit * most).rstrip(b",") + after


def _headers() -> dict[str, bytes]:
    quoted = b'"' + b"%s" + b'"'
    units = {
        "empty dicts": b"{},",
        "nulls": b"null,",
        "whole numbers": b"1,",
        "whole numbers of 13 digits": b"9" * 13 + b",",
        "whole numbers of 4,299 digits": b"9" * 4299 + b",",
        "whole numbers of 5,000 digits": b"9" * 5000 + b",",
        "floats": b'{"float":"0x1.921fb54442d18p+1"},',
        "short floats": b'{"float":"1"},',
        "floats of 4,000 digits": b'{"float":"0x' + b"1" * 4000 + b'"},',
        "JSON's floats": b"1e5,",
        "empty lists": b'{"list":[]},',
        "lists of one": b'{"list":[1]},',
        "plain dicts": b'{"dict":{}},',
        "lists in lists": b"[[[]]],",
        "tensors of no numbers": b'{"tensor":["bool",[0],0]},',
        "tensors of one number": b'{"tensor":["bool",[],0]},',
        "bytes": b'{"bytes":0},',
        "texts beside": b'{"text":0},',
        "texts": b'"a",',
        "dicts of two keys": b'{"a":1,"b":2},',
    }
    others = {
        "escaped zeros": quoted % (b"\\u0000" * ((SIZE - 2) // 6)),
        "halves of characters": quoted % (b"\\ud800" * ((SIZE - 2) // 6)),
        "escaped lines": quoted % (b"\\n" * ((SIZE - 2) // 2)),
        "Chinese": quoted % ("中".encode() * ((SIZE - 2) // 3)),
        "no UTF-8": quoted % (b"\xff" * (SIZE - 2)),
        "keys": b'{"dict":{' + b",".join(b'"%d":1' % key for key in range(590_000)) + b"}}",
        "dimensions": b'{"tensor":["bool",[' + b",".join([b"1"] * 400_000) + b"],1]}",
        "brackets": b"[" * SIZE,
        "brackets below the limit": b"[" * (plain.MOST_MARKS - 1),
        "braces below the limit": b'{"list":[' * (plain.MOST_MARKS // 2 - 1),
        "a long float": b"1." + b"1" * (SIZE - 2),
        "a long whole number": b"1" * SIZE,
        "a long exponent": b"1e" + b"9" * (SIZE - 2),
        "a long hexadecimal": b'{"float":"0x' + b"1" * (SIZE - 20) + b'"}',
        "spaces": b" " * SIZE,
        "UTF-16": ("[]" * 1_000_000).encode("utf-16"),
        "UTF-32": ("[]" * 1_000_000).encode("utf-32"),
    }
    return {name: _filled(unit) for name, unit in units.items()} | others
