"""The C library, opened once: opening it builds a class, and a process that is forked later has it already."""

import ctypes
import functools


@functools.cache
def libc() -> ctypes.CDLL:
    """What the program itself is linked with; `ctypes.get_errno()` has the error of a call."""
    return ctypes.CDLL(None, use_errno=True)
