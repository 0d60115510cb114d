"""Prepare a process for forking, so that it shares its imports with its ranks cheaply.

A fork copies the page table, not the pages. With torch imported the table has some 50,000 entries for pages of 4 KiB,
and copying it takes 10 ms per rank. Linux 6.1 and later can merge them into pages of 2 MiB (`man 2 madvise`,
MADV_COLLAPSE).
"""

import ctypes
import gc
from contextlib import suppress
from pathlib import Path

from shardlab.ranks.libc import libc

COLLAPSE = 25  # MADV_COLLAPSE
LARGE = 2 << 20  # bytes of a large page on x86-64 and, with pages of 4 KiB, on arm64


def prepare_to_fork() -> None:
    """Freeze all existing objects, so that a rank's garbage collector does not write to them, and use large pages."""
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):  # not Linux or not its C library: forks only take longer
        madvise = libc().madvise
        madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for first, length in _private_memory(Path("/proc/self/maps").read_text()):
            madvise(first, length, COLLAPSE)  # older kernels refuse it, as do some mappings: they keep small pages


def _private_memory(maps: str) -> list[tuple[int, int]]:
    """(address, bytes) of the whole large pages in each private mapping that is not file-backed."""
    found = []
    for line in maps.splitlines():
        span, rights, _, _, inode = line.split(maxsplit=5)[:5]
        first, end = (int(address, 16) for address in span.split("-"))
        first, end = -(-first // LARGE) * LARGE, end // LARGE * LARGE
        if rights == "rw-p" and inode == "0" and first < end:
            found.append((first, end - first))
    return found
