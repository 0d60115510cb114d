"""The line of the caller's own code that a communication call comes from."""

from __future__ import annotations

import os
import sys
from types import FrameType

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OURS = tuple(os.path.join(os.path.dirname(os.path.dirname(__file__)), part) + os.sep for part in ("ranks", "meter"))

_hidden: set[str] = set()


def hide(filename: str) -> None:
    """Count a file as machinery: what it wraps around torch's calls is not a line of a student's."""
    _hidden.add(filename)


def is_cell(filename: str) -> bool:
    """Whether a code object was typed in a notebook: ipykernel's temporary names, or a graded cell's `<week01...>`."""
    return filename.startswith("<week") or f"{os.sep}ipykernel_" in filename or filename.startswith("<ipython-input")


def is_ours(filename: str) -> bool:
    """Whether code starts ranks or records calls."""
    return filename.startswith(_OURS)


def is_machinery(filename: str) -> bool:
    """Whether code is Python's, torch's, another library's or our own machinery, and so no line of a student's."""
    installed = "/lib/python3" in filename and "/shardlab/" not in filename
    return installed or filename in _hidden or is_ours(filename) or filename.startswith((_TORCH, "<frozen "))


def describe(filename: str, line: int, function: str) -> str:
    """`line 3 of your cell, in exchange()` for notebook code, `line 42 of collectives.py, in f()` for the rest."""
    where = "your cell" if is_cell(filename) else os.path.basename(filename)
    inside = "" if function.startswith("<") else f", in {function}()"
    return f"line {line} of {where}{inside}"


def caller() -> str:
    """Describe the innermost frame that is neither torch's nor the recorder's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not is_machinery(filename):
            return describe(filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return "library code"
