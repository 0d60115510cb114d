"""Keep a rank's inputs in shared memory, so that the supervisor can check whether an answer changed them. Linux only.

The tensors among a rank's arguments are stored in a file that the rank and the supervisor share. When the function
returns, the rank makes them read-only, notifies the supervisor and waits. Before the result is reported, the supervisor
compares the file with the original inputs and inverts every bit, so that a result which is a view of its input becomes
wrong. Then it seals the file. The kernel allows the seal only if no process can write to the file any more, and a seal
cannot be removed. A rank that claims too early that the function has returned is therefore left with inverted inputs
that nobody can change, and a rank that can still write counts as not having returned. An answer that works on
copies counts as leaving its inputs unchanged.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy
import torch
from shardlab.ranks.libc import libc

from autograder.jobs import mapped, parcels, plain
from autograder.jobs.mapped import Replaced

_ALIGNMENT = 64
_NOT_IN_CHILDREN = 10  # MADV_DONTFORK
_SEALED = 0x0008 | 0x0004 | 0x0002 | 0x0001  # F_SEAL_WRITE, GROW, SHRINK, SEAL


class Inputs:
    """The inputs of one job: created before the ranks are forked, and watched while they run.

    `given` are the files with each rank's input. They are only read when no rank can inherit their contents. Without
    `spoils`, inputs are not inverted, so that a result may be one of them. `touched[rank]` is None until the return.
    """

    def __init__(self, given: Sequence[int], *, spoils: bool) -> None:
        self._given = given
        self._spoils = spoils
        self._files = [os.memfd_create("inputs", os.MFD_ALLOW_SEALING) for _ in given]
        self._pipes = [(*os.pipe(), *os.pipe()) for _ in given]
        self._end_out, self._end_in = os.pipe()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._returned = [False] * len(given)
        self.touched: list[bool | None] = [None] * len(given)

    def keep_own(self, rank: int, args: list) -> tuple[list, Callable[[], None], Replaced]:
        """In a rank: move the tensors of its arguments into the shared file.

        Returns the new arguments, a function to call when the student's function has returned, and the one mapping
        that this function replaces.
        """
        size = max(1, _size(args))
        os.ftruncate(self._files[rank], size)
        path = f"/proc/self/fd/{self._files[rank]}"
        shared: Any = torch.UntypedStorage.from_file(path, shared=True, nbytes=size)
        placed, _ = _placed(args, torch.empty(0, dtype=torch.uint8).set_(shared), 0)
        to_read = os.open(path, os.O_RDONLY)
        for descriptor in (self._end_out, self._end_in):
            os.close(descriptor)
        for other, ends in enumerate(self._pipes):
            for place, descriptor in enumerate(ends):
                if other != rank or place in (0, 3):
                    os.close(descriptor)
            os.close(self._files[other])
        _, said, heard, _ = self._pipes[rank]

        place = Replaced(shared.data_ptr(), size, to_read)
        # Otherwise a process that the answer starts and leaves running could write to the inputs and block the seal.
        libc().madvise(ctypes.c_void_p(place.address), ctypes.c_size_t(size), _NOT_IN_CHILDREN)

        def returned() -> None:
            _map_over(place)
            os.write(said, b"r")
            parcels.read_exactly(heard, 1)

        return placed, returned, place

    def look(self) -> None:
        """Start watching in the supervisor's first loop iteration, when all ranks have been forked."""
        if self._thread.ident is None:
            self._thread.start()

    def close(self) -> None:
        """Stop watching, and close files and pipes."""
        os.close(self._end_in)
        if self._thread.ident is not None:
            self._thread.join()
        for descriptor in (self._end_out, *self._files, *(end for ends in self._pipes for end in ends)):
            os.close(descriptor)

    def _watch(self) -> None:
        while True:
            waiting = {ends[0]: rank for rank, ends in enumerate(self._pipes) if not self._returned[rank]}
            ready, _, _ = select.select([self._end_out, *waiting], [], [])
            if self._end_out in ready:
                return
            for descriptor in ready:
                os.read(descriptor, 1)
                self._compare(waiting[descriptor])

    def _compare(self, rank: int) -> None:
        mine = plain.decode(parcels.content(self._given[rank]))
        args = mine["args"] if isinstance(mine, dict) else []
        due = torch.zeros(_size(args), dtype=torch.uint8)
        _placed(args, due, 0)
        now = os.pread(self._files[rank], len(due), 0)
        if self._spoils:
            os.pwrite(self._files[rank], (numpy.frombuffer(now, numpy.uint8) ^ 255).tobytes(), 0)
        self._returned[rank] = True
        with suppress(OSError):  # the rank can still write to it
            fcntl.fcntl(self._files[rank], fcntl.F_ADD_SEALS, _SEALED)
            self.touched[rank] = now != due.numpy().tobytes()
        os.write(self._pipes[rank][3], b"k")


def _map_over(place: Replaced) -> None:
    """Map a file that was opened for reading over its own writable pages, which makes them read-only."""
    address, size = ctypes.c_void_p(place.address), ctypes.c_size_t(place.size)
    libc().mmap(address, size, mapped.READ_ALONE, mapped.IN_ITS_PLACE, place.file, ctypes.c_long(0))
    os.close(place.file)


def _size(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return -(-value.nbytes // _ALIGNMENT) * _ALIGNMENT
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 0


def _placed(value: Any, memory: torch.Tensor, at: int) -> tuple[Any, int]:
    """Copy a value's tensors into `memory` (bytes), starting at `at`; return the new value and the next position."""
    if isinstance(value, torch.Tensor) and value.numel():
        there = memory[at : at + value.nbytes].view(value.dtype).view(value.shape)
        there.copy_(value)
        return there, at + _size(value)
    if isinstance(value, list | tuple):
        items = []
        for item in value:
            there, at = _placed(item, memory, at)
            items.append(there)
        return type(value)(items), at
    return value, at
