"""Plain data across the trust boundary: numbers, texts, lists, dicts and tensors. Nothing is ever unpickled.

A message is the length of a JSON header, the header, and the tensors' bytes one after another. Only exact types are
taken: an object that merely claims to be a number or a tensor is refused on the side that sends it, and everything is
checked again on the side that reads it. NumPy's numbers and arrays cross as Python's.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy
import torch

_LENGTH = struct.Struct("<Q")
MOST_HEADER_BYTES = 8 << 20
MOST_DEPTH = 20
MOST_TENSOR_BYTES = 64 << 20
MOST_NUMPY_NUMBERS = 100_000  # they travel as text
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
    """A value that cannot cross, or bytes that are no message."""


def encode(value: Any) -> bytes:
    """Bytes of a plain value; NotPlain names the type that cannot travel."""
    return b"".join(parts(value))


def parts(value: Any) -> list[bytes | memoryview]:
    """The same bytes in parts: a tensor without gaps is its own memory, so that to write them takes no more."""
    blobs: list[bytes | memoryview] = []
    header = json.dumps(_describe(value, blobs, 0)).encode()
    return [_LENGTH.pack(len(header)), header, *blobs]


def decode(data: bytes) -> Any:
    """The value of a message; NotPlain for anything that is not exactly one."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        if length > min(MOST_HEADER_BYTES, len(data) - _LENGTH.size):
            raise NotPlain("the header is longer than the message")
        start = _LENGTH.size + length
        value, end = _rebuild(json.loads(data[_LENGTH.size : start]), memoryview(data), start, 0)
    except (struct.error, UnicodeDecodeError, RecursionError, KeyError, TypeError, ValueError) as error:
        raise NotPlain(f"not a message: {error}") from None
    if end != len(data):
        raise NotPlain("bytes are left over after the message")
    return value


def _describe(value: Any, blobs: list[bytes | memoryview], depth: int) -> Any:
    if depth > MOST_DEPTH:
        raise NotPlain(f"nested deeper than {MOST_DEPTH} levels")
    kind = type(value)
    if kind in NUMPY_NUMBERS or (kind is numpy.ndarray and value.size <= MOST_NUMPY_NUMBERS):
        value = value.tolist()
        kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return {"float": value.hex()}
    if kind is bytes:
        blobs.append(value)
        return {"bytes": len(value)}
    if kind in (list, tuple):
        return {kind.__name__: [_describe(item, blobs, depth + 1) for item in value]}
    if kind is dict:
        if any(type(key) is not str for key in value):
            raise NotPlain("a dict with keys that are not texts")
        return {"dict": {key: _describe(item, blobs, depth + 1) for key, item in value.items()}}
    if kind in (torch.Tensor, torch.nn.Parameter):
        return _describe_tensor(value, blobs)
    raise NotPlain(f"a {kind.__module__}.{kind.__qualname__}".replace("builtins.", ""))


def _describe_tensor(tensor: torch.Tensor, blobs: list[bytes | memoryview]) -> Any:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES or tensor.layout != torch.strided:
        raise NotPlain(f"a {tensor.layout} tensor of {name}")
    if tensor.numel() * tensor.element_size() > MOST_TENSOR_BYTES:
        raise NotPlain(f"a tensor of {tensor.numel() * tensor.element_size():,} bytes")
    data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b""
    blobs.append(data)
    return {"tensor": [name, list(tensor.shape), len(data)]}


def _rebuild(node: Any, data: memoryview, at: int, depth: int) -> tuple[Any, int]:
    if depth > MOST_DEPTH:
        raise NotPlain(f"nested deeper than {MOST_DEPTH} levels")
    if node is None or type(node) in (bool, int, str):
        return node, at
    if type(node) is not dict or len(node) != 1:
        raise NotPlain("an unknown node")
    ((kind, content),) = node.items()
    if kind == "float":
        return float.fromhex(content), at
    if kind == "bytes":
        return bytes(_slice(data, at, content)), at + content
    if kind == "tensor":
        return _rebuild_tensor(content, data, at)
    if kind in ("list", "tuple"):
        items = []
        for item in content:
            value, at = _rebuild(item, data, at, depth + 1)
            items.append(value)
        return (items if kind == "list" else tuple(items)), at
    if kind == "dict":
        pairs = {}
        for key, item in content.items():
            pairs[key], at = _rebuild(item, data, at, depth + 1)
        return pairs, at
    raise NotPlain(f"an unknown kind {kind[:20]!r}")


def _rebuild_tensor(content: Any, data: memoryview, at: int) -> tuple[torch.Tensor, int]:
    name, shape, num_bytes = content
    dtype = DTYPES[name]
    num_elements = 1
    for size in shape:
        if type(size) is not int or not 0 <= size < 1 << 40:
            raise NotPlain("a tensor with an impossible shape")
        num_elements *= size
    if num_elements * dtype.itemsize != num_bytes:
        raise NotPlain("a tensor whose bytes do not fit its shape")
    raw = bytearray(_slice(data, at, num_bytes))
    flat = torch.frombuffer(raw, dtype=dtype) if num_bytes else torch.empty(0, dtype=dtype)
    return flat.reshape(shape), at + num_bytes


def _slice(data: memoryview, at: int, length: Any) -> memoryview:
    if type(length) is not int or not 0 <= length <= len(data) - at:
        raise NotPlain("a length outside the message")
    return data[at : at + length]
