"""Find the line in the caller's own code that made a communication call."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from inspect import CO_OPTIMIZED, CO_VARARGS, CO_VARKEYWORDS
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

_TORCH = os.path.dirname(torch.__file__) + os.sep
_SHARDLAB = os.path.dirname(os.path.dirname(__file__)) + os.sep
_OURS = tuple(_SHARDLAB + part + os.sep for part in ("ranks", "meter"))
# Files between the code that calls a collective and the process group: they only pass the handle on.
_BETWEEN = (
    *(os.path.join(_TORCH, "distributed", name) for name in ("distributed_c10d.py", "c10d_logger.py")),
    *(os.path.join(_TORCH, "utils", "_contextlib.py"), os.path.join(os.path.dirname(os.__file__), "contextlib.py")),
)

_hidden: set[str] = set()


def hide(filename: str) -> None:
    """Treat a file as machinery, because it wraps torch's calls and has no student code."""
    _hidden.add(filename)


def is_cell(filename: str) -> bool:
    """Whether code was typed in a notebook: ipykernel's temporary file names, or a graded cell's `<week01...>`."""
    return filename.startswith("<week") or f"{os.sep}ipykernel_" in filename or filename.startswith("<ipython-input")


def is_ours(filename: str) -> bool:
    """Whether code belongs to the packages that start ranks or record calls."""
    return filename.startswith(_OURS)


def is_torchs(filename: str) -> bool:
    """Whether code belongs to torch."""
    return filename.startswith(_TORCH)


def is_machinery(filename: str) -> bool:
    """Whether code belongs to Python, torch, another library or our own machinery, so that it is not a student's."""
    installed = "/lib/python3" in filename and "/shardlab/" not in filename
    return installed or filename in _hidden or is_ours(filename) or filename.startswith((_TORCH, "<frozen "))


def describe(filename: str, line: int, function: str) -> str:
    """`line 3 of your cell, in exchange()` for notebook code, `line 42 of collectives.py, in f()` for other code."""
    where = "your cell" if is_cell(filename) else os.path.basename(filename)
    inside = "" if function.startswith("<") else f", in {function}()"
    return f"line {line} of {where}{inside}"


def caller() -> str:
    """Describe the innermost frame that is not machinery."""
    frame = next(_own_frames(), None)
    if frame is None:
        return "library code"
    return describe(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def is_for_a_library() -> bool:
    """Whether the handle of the running call goes to torch's or shardlab's own code, which waits for it itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if filename not in _BETWEEN and not is_ours(filename):
            return filename.startswith((_TORCH, _SHARDLAB))
        frame = frame.f_back
    return False


def other_group() -> str:
    """`group of layer()` if a running function was given a process group other than the world, else ""."""
    for frame in _own_frames():
        for name, value in _arguments(frame):
            if value is dist.GroupMember.NON_GROUP_MEMBER or (
                isinstance(value, dist.ProcessGroup) and value is not dist.group.WORLD
            ):
                return f"{name} of {frame.f_code.co_name}()"
    return ""


def _own_frames() -> Iterator[FrameType]:
    """The frames that are not machinery, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_machinery(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _arguments(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """Names and values of a function's arguments and of the attributes of `self`; keeps no references."""
    code = frame.f_code
    if not code.co_flags & CO_OPTIMIZED:  # a module or class body has no arguments
        return
    several = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + several]
    values = frame.f_locals
    found = [(name, values[name]) for name in names if name in values]
    if type(values) is dict and sys.getrefcount(values) <= 3:
        values.clear()  # before Python 3.13, a frame keeps this copy and every tensor in it alive until it ends
    for name, value in found:
        yield name, value
        if name == "self":
            yield from ((f"self.{key}", held) for key, held in getattr(value, "__dict__", {}).items())
