"""Ready to be forked: what a program has imported is shared with its ranks, and is cheap to hand on.

A fork copies the table of pages, not the pages. With torch imported that is some 50,000 entries of 4 KiB, 10 ms for
each rank. Linux 6.1 and later gather them into pages of 2 MiB when asked (`man 2 madvise`, MADV_COLLAPSE).
"""

import ctypes
import gc
from contextlib import suppress
from pathlib import Path

from shardlab.ranks.libc import libc

COLLAPSE = 25  # MADV_COLLAPSE
LARGE = 2 << 20  # bytes of a large page on x86-64 and, with pages of 4 KiB, on arm64


def prepare_to_fork() -> None:
    """Freeze what is there, so that no collection of a rank's writes into it, and gather its pages into large ones."""
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):  # neither Linux nor its C library: forks take longer, nothing else
        madvise = libc().madvise
        madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for first, length in _private_memory(Path("/proc/self/maps").read_text()):
            madvise(first, length, COLLAPSE)  # refused by older kernels and for some memory: it stays as it was


def _private_memory(maps: str) -> list[tuple[int, int]]:
    """(address, bytes) of the whole large pages in each stretch that is this program's own and no file's."""
    found = []
    for line in maps.splitlines():
        span, rights, _, _, inode = line.split(maxsplit=5)[:5]
        first, end = (int(address, 16) for address in span.split("-"))
        first, end = -(-first // LARGE) * LARGE, end // LARGE * LARGE
        if rights == "rw-p" and inode == "0" and first < end:
            found.append((first, end - first))
    return found
