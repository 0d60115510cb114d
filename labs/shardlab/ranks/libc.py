"""The C library, opened once: opening it builds a class, and processes forked later inherit it."""

import ctypes
import functools


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library that this program is linked with; `ctypes.get_errno()` returns the error of a call."""
    return ctypes.CDLL(None, use_errno=True)
