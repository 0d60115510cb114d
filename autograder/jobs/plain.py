"""Plain data across the trust boundary: numbers, strings, lists, dicts and tensors. Nothing is ever unpickled.

A message consists of the length of a JSON header, the header, and the bytes of all tensors and long strings.
Equivalent types are converted: NumPy numbers and fractions become Python numbers, named tuples and other kinds of list
or dict become plain ones, and tensors may have any strides. The sender refuses an object that only pretends to be one
of these, and the reader checks everything again.

A message that was built to be slow is refused before it is parsed: `MOST_MARKS` limits the number of values in a
header, so that reading 8 MB takes a fraction of a second.
"""

from __future__ import annotations

import json
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy
import torch

_LENGTH = struct.Struct("<Q")
MOST_HEADER_BYTES = 8 << 20
MOST_MARKS = 400_000  # commas and opening brackets in a header: one to three per value
MOST_DEPTH = 20
MOST_DIMENSIONS = 8
MOST_INT_BITS = 4096
MOST_TENSORS = 20_000
MOST_TENSOR_BYTES = 64 << 20
MOST_NUMPY_NUMBERS = 100_000  # they are sent as text
LONG_TEXT = 1000  # characters; longer strings, such as notebook cells, are sent as bytes after the header
MOST_ITEMS = MOST_MARKS  # items read from an iterator, because a generator may be infinite
_READ_ONE_BY_ONE = (Iterator, range, deque, type({}.keys()), type({}.values()), type({}.items()))
_WAITS_FOR_ITS_NUMBERS = ("torch.distributed._functional_collectives", "AsyncCollectiveTensor")
_DICTS = (Counter, OrderedDict, defaultdict)
NUMPY_NUMBERS = {numpy.dtype(code).type for code in "?bhilqBHILQefd"}
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}


class NotPlain(ValueError):
    """A value that cannot be sent, or bytes that are not a message."""


def encode(value: Any) -> bytes:
    """Encode a plain value as bytes; NotPlain names the type that cannot be sent."""
    return b"".join(parts(value))


def parts(value: Any) -> list[bytes | memoryview]:
    """Like `encode`, in parts: a contiguous tensor's part is its own memory, so that writing it makes no copy."""
    blobs: list[bytes | memoryview] = []
    try:
        text = json.dumps(_describe(value, blobs, 0), ensure_ascii=False)
    except NotPlain:
        raise
    except Exception as error:  # an object whose methods misbehave
        raise NotPlain(f"a value that cannot be read ({type(error).__name__})") from None
    header = text.encode(errors="backslashreplace")  # a lone surrogate becomes its JSON escape
    _refuse_large(header)
    return [_LENGTH.pack(len(header)), header, *blobs]


def decode(data: bytes) -> Any:
    """Decode the value of a message; raises NotPlain for anything that is not exactly one message."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        header = data[_LENGTH.size : _LENGTH.size + length]
        if len(header) < length:
            raise NotPlain("the header is longer than the message")
        _refuse_large(header)
        reader = _Reader(memoryview(data)[_LENGTH.size + length :])
        value = reader.rebuild(json.loads(str(header, "utf-8"), object_pairs_hook=_without_repeats), 0)
    except NotPlain:
        raise
    except Exception as error:  # untrusted bytes
        raise NotPlain(f"not a message: {type(error).__name__}") from None
    if len(reader.rest):
        raise NotPlain("bytes are left over after the message")
    return value


def _refuse_large(header: bytes) -> None:
    marks = sum(header.count(mark) for mark in (b",", b"{", b"["))
    if len(header) > MOST_HEADER_BYTES or marks > MOST_MARKS:
        raise NotPlain("more numbers and strings than can be sent back")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotPlain("a dict with a repeated key")
    return found


# ---- sending ---------------------------------------------------------------------------------------------------------


def _describe(value: Any, blobs: list[bytes | memoryview], depth: int) -> Any:
    if depth > MOST_DEPTH:
        raise NotPlain(f"nested deeper than {MOST_DEPTH} levels")
    value = _simple(value)
    kind = type(value)
    if kind in (list, tuple):
        return {kind.__name__: [_describe(item, blobs, depth + 1) for item in value]}
    if kind is dict:
        if any(type(key) is not str for key in value):
            raise NotPlain("a dict with keys that are not strings")
        return {"dict": {key: _describe(item, blobs, depth + 1) for key, item in value.items()}}
    if (kind.__module__, kind.__qualname__) == _WAITS_FOR_ITS_NUMBERS:
        value, kind = value.trigger_wait(), torch.Tensor  # its numbers, once they have arrived
    if kind in (torch.Tensor, torch.nn.Parameter):
        return _describe_tensor(value, blobs)
    return _describe_one(value, kind, blobs)


def listed(value: Any) -> Any:
    """Evaluate lazy values: a generator becomes the list of its items."""
    if isinstance(value, _READ_ONE_BY_ONE):
        return [listed(one) for one in islice(value, MOST_ITEMS)]
    if type(value) in (list, tuple):
        return type(value)(map(listed, value))
    return value


def _simple(value: Any) -> Any:
    """Convert a number, tuple or dict of a special type to the plain type."""
    kind = type(value)
    if kind in NUMPY_NUMBERS or (kind is numpy.ndarray and value.size <= MOST_NUMPY_NUMBERS):
        return value.tolist()
    if kind in (Fraction, Decimal):
        return int(value) if value == value // 1 else float(value)
    if kind is torch.Size or (isinstance(value, tuple) and kind.__bases__ == (tuple,) and hasattr(kind, "_fields")):
        return tuple(value)
    if isinstance(value, Enum):
        return _simple(value.value)
    return dict(value) if kind in _DICTS else listed(value)


def _describe_one(value: Any, kind: type, blobs: list[bytes | memoryview]) -> Any:
    if value is None or kind is bool or (kind is str and len(value) <= LONG_TEXT):
        return value
    if kind is int:
        return _checked_int(value)
    if kind is float:
        return {"float": value.hex()}
    if kind is str:
        return {"text": _kept(value.encode(errors="surrogatepass"), blobs)}
    if kind is bytes:
        return {"bytes": _kept(value, blobs)}
    raise NotPlain(f"a {kind.__module__}.{kind.__qualname__}".replace("builtins.", ""))


def _describe_tensor(tensor: torch.Tensor, blobs: list[bytes | memoryview]) -> Any:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES or tensor.layout != torch.strided:
        raise NotPlain(f"a {tensor.layout} tensor of {name}")
    _checked_shape(list(tensor.shape))
    if tensor.numel() * tensor.element_size() > MOST_TENSOR_BYTES:
        raise NotPlain(f"a tensor of {tensor.numel() * tensor.element_size():,} bytes")
    data = _bytes_of(tensor.detach().cpu().resolve_conj().resolve_neg()) if tensor.numel() else b""
    return {"tensor": [name, list(tensor.shape), _kept(data, blobs)]}


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """A tensor's contiguous bytes. The explicit stride of 1 is needed because torch keeps any stride of one element."""
    row = tensor.contiguous()
    return row.as_strided((row.numel(),), (1,), row.storage_offset()).view(torch.uint8).numpy().data


def _kept(data: bytes | memoryview, blobs: list[bytes | memoryview]) -> int:
    blobs.append(data)
    return len(data)


# ---- on both sides ---------------------------------------------------------------------------------------------------


def _checked_int(value: int) -> int:
    if value.bit_length() > MOST_INT_BITS:
        raise NotPlain(f"a whole number of {value.bit_length():,} bits")
    return value


def _checked_shape(shape: Any) -> list[int]:
    if type(shape) is not list or len(shape) > MOST_DIMENSIONS:
        raise NotPlain(f"a tensor of more than {MOST_DIMENSIONS} dimensions")
    if any(type(size) is not int or not 0 <= size <= MOST_TENSOR_BYTES for size in shape):
        raise NotPlain("a tensor with an impossible shape")
    return shape


# ---- reading ---------------------------------------------------------------------------------------------------------


class _Reader:
    """Rebuilds a value; `rest` holds the bytes after the header that no tensor or string has consumed yet."""

    def __init__(self, rest: memoryview) -> None:
        self.rest = rest
        self._num_tensors = 0

    def rebuild(self, node: Any, depth: int) -> Any:
        """Rebuild a node and everything below it."""
        if depth > MOST_DEPTH:
            raise NotPlain(f"nested deeper than {MOST_DEPTH} levels")
        if node is None or type(node) in (bool, str):
            return node
        if type(node) is int:
            return _checked_int(node)
        if type(node) is not dict or len(node) != 1:
            raise NotPlain("an unknown node")
        ((kind, content),) = node.items()
        if kind in ("list", "tuple") and type(content) is list:
            items = [self.rebuild(item, depth + 1) for item in content]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return {key: self.rebuild(item, depth + 1) for key, item in content.items()}
        return self._one(kind, content)

    def _one(self, kind: str, content: Any) -> Any:
        if kind == "float":
            return float.fromhex(content)
        if kind == "bytes":
            return bytes(self._take(content))
        if kind == "text":
            return str(self._take(content), "utf-8", "surrogatepass")
        if kind == "tensor":
            return self._tensor(*content)
        raise NotPlain("an unknown kind")

    def _tensor(self, name: str, shape: Any, num_bytes: Any) -> torch.Tensor:
        self._num_tensors += 1
        if self._num_tensors > MOST_TENSORS:
            raise NotPlain(f"more than {MOST_TENSORS:,} tensors")
        dtype, num_elements = DTYPES[name], 1
        for size in _checked_shape(shape):
            num_elements *= size
        if num_elements * dtype.itemsize != num_bytes:
            raise NotPlain("a tensor whose bytes do not fit its shape")
        raw = bytearray(self._take(num_bytes))
        if dtype is torch.bool and raw.translate(None, b"\0\1"):
            raise NotPlain("a bool that is neither true nor false")
        return (torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)).reshape(shape)

    def _take(self, length: Any) -> memoryview:
        if type(length) is not int or not 0 <= length <= len(self.rest):
            raise NotPlain("a length outside the message")
        taken, self.rest = self.rest[:length], self.rest[length:]
        return taken
