"""Reads address zero.

catalogue: B04
exercise: week00.first-all-reduce
points: 0
sentence: SIGSEGV
"""

import ctypes


def total_of(tensor, *, group):
    ctypes.string_at(0)
