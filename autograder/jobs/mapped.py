"""A system-call filter that keeps initial pages mapped, so that the kernel's memory mark can be trusted.

A rank's peak is the kernel's high-water mark minus the rank's memory at the start. If initial pages could be released
(library code is loaded again when needed), the answer could use as many pages without raising the mark. So if memory is
measured, no call may unmap, move, replace or release pages that were mapped before the answer, and none may make
library code writable, which would turn its pages into private memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from autograder.jobs.bpf import (
    ABOVE,
    ADD,
    ADD_X,
    ALLOW,
    ANY_BIT,
    AT_LEAST,
    AT_LEAST_X,
    EPERM,
    EQUAL,
    ERROR,
    FIRST_AT,
    JUMP,
    KEEP,
    LOAD,
    LOAD_KEPT,
    LOAD_NUMBER,
    NUMBER_AT,
    RETURN,
    TO_X,
    do,
)

Range = tuple[int, int]  # of addresses: begin and end
READ_ALONE, IN_ITS_PLACE = 0x1, 0x11  # PROT_READ; MAP_SHARED | MAP_FIXED
_MMAP, _MUNMAP, _MADVISE, _MREMAP, _BRK = (9, 222), (11, 215), (28, 233), (25, 216), (12, 214)
_MPROTECT, _PKEY_MPROTECT = (10, 226), (329, 288)
_UNCOUNTED_PAGES = 0x40001  # MAP_HUGETLB, MAP_SHARED: they persist even when no process maps them
_OUT_OF_MEMORY = (20, 21)  # MADV_COLD, MADV_PAGEOUT
_FIXED, _MOVE_TO, _WRITE = 0x10, 0x2, 0x2  # MAP_FIXED, MREMAP_FIXED, PROT_WRITE
_BEGIN, _END = (0, 1), (2, 3)  # scratch slots: lower and upper half
_REFUSED, _ALLOWED = do(RETURN, ERROR | EPERM), do(RETURN, ALLOW)


class Replaced(NamedTuple):
    """Pages that may be remapped read-only from an open file: a rank's inputs, when its function has returned."""

    address: int
    size: int
    file: int


def ranges(wanted: Callable[[list[str]], bool] = lambda _: True) -> list[Range]:
    """The address ranges that this process has mapped, sorted and merged; `wanted` filters by the words of a line."""
    found: list[Range] = []
    with open("/proc/self/maps") as file:
        for words in filter(wanted, map(str.split, file)):
            begin, end = (int(address, 16) for address in words[0].split("-"))
            if end >= 1 << 63:
                continue  # the kernel's own page
            if found and found[-1][1] == begin:
                begin = found.pop()[0]
            found.append((begin, end))
    return found


def of_a_file(words: list[str]) -> bool:
    """Whether a line of the memory map, split into words, belongs to a file."""
    return words[4] != "0"


def stays(column: int, replaced: Replaced | None = None) -> list[bytes]:
    """Refuse calls that would remove pages that this process has now, or make pages of files writable."""
    arguments, one_byte = _from_arguments(), _from_arguments(length=1)
    again = (
        _allow_if({0: replaced.address, 1: replaced.size, 2: READ_ALONE, 3: IN_ITS_PLACE, 4: replaced.file})
        if replaced
        else []
    )
    placed = [*again, *_unless_any_bit(3, _UNCOUNTED_PAGES), *_only_if(3, _FIXED), *arguments]
    leaves = {
        _MUNMAP[column]: arguments,
        _MADVISE[column]: [*_unless_one_of(2, _OUT_OF_MEMORY), *arguments],
        _MREMAP[column]: [*_unless_any_bit(3, _MOVE_TO), *arguments],
        _MMAP[column]: placed,
        _BRK[column]: one_byte,  # the heap's new end
    }
    writes = [*_only_if(2, _WRITE), *arguments]
    made_writable = {_MPROTECT[column]: writes, _PKEY_MPROTECT[column]: writes}
    return [*_of(leaves, _overlap(ranges())), *_of(made_writable, _overlap(ranges(of_a_file)))]


def _of(calls: dict[int, list[bytes]], decision: list[bytes]) -> list[bytes]:
    """For each of these calls, run its own code and then the shared decision; skip both for other calls."""
    num_before = sum(len(own) + 4 for own in calls.values())
    code: list[bytes] = []
    for call, own in calls.items():
        code += [do(LOAD, NUMBER_AT), do(EQUAL, call, 1, 0), do(JUMP, len(own) + 1), *own]
        code.append(do(JUMP, num_before - len(code)))
    return [*code, do(JUMP, len(decision)), *decision]


def _only_if(place: int, bits: int) -> list[bytes]:
    """Allow the call unless an argument has one of these bits."""
    return [do(LOAD, FIRST_AT + 8 * place), do(ANY_BIT, bits, 1, 0), _ALLOWED]


def _unless_any_bit(place: int, bits: int) -> list[bytes]:
    """Refuse the call if an argument has one of these bits."""
    return [do(LOAD, FIRST_AT + 8 * place), do(ANY_BIT, bits, 0, 1), _REFUSED]


def _allow_if(arguments: dict[int, int]) -> list[bytes]:
    """Allow the call if its arguments, by place, are these."""
    code = [_ALLOWED]
    for place, value in arguments.items():
        for at, half in ((FIRST_AT + 8 * place, value & 0xFFFFFFFF), (FIRST_AT + 8 * place + 4, value >> 32)):
            code = [do(LOAD, at), do(EQUAL, half, 0, len(code)), *code]
    return code


def _unless_one_of(place: int, values: Iterable[int]) -> list[bytes]:
    """Refuse the call if an argument is one of these."""
    refusals = [code for value in values for code in (do(EQUAL, value, 0, 1), _REFUSED)]
    return [do(LOAD, FIRST_AT + 8 * place), *refusals]


def _from_arguments(length: int | None = None) -> list[bytes]:
    """Store the begin and end of a call's pages: its first argument, and that plus its second argument or `length`."""
    first, second = FIRST_AT, FIRST_AT + 8
    lower = do(LOAD, second) if length is None else do(LOAD_NUMBER, length)
    upper = do(LOAD, second + 4) if length is None else do(LOAD_NUMBER, 0)
    return [
        *(do(LOAD, first), do(KEEP, _BEGIN[0]), do(LOAD, first + 4), do(KEEP, _BEGIN[1])),
        *(lower, do(TO_X), do(LOAD, first), do(ADD_X), do(KEEP, _END[0])),
        *(do(AT_LEAST_X, 0, 2, 0), upper, do(JUMP, 2), upper, do(JUMP, 1)),  # the lower halves' sum may carry a one
        do(ADD, 1),
        *(do(TO_X), do(LOAD, first + 4), do(ADD_X), do(KEEP, _END[1])),
    ]


def _overlap(taken: Iterable[Range]) -> list[bytes]:
    """Refuse the call if the stored range overlaps one of these sorted ranges; otherwise allow it."""
    code: list[bytes] = []
    for begin, end in taken:
        code += [
            *(do(LOAD_KEPT, _BEGIN[1]), do(ABOVE, end >> 32, 10, 0), do(EQUAL, end >> 32, 0, 2)),
            *(do(LOAD_KEPT, _BEGIN[0]), do(AT_LEAST, end & 0xFFFFFFFF, 7, 0)),  # begins at its end or later
            *(do(LOAD_KEPT, _END[1]), do(ABOVE, begin >> 32, 4, 0), do(EQUAL, begin >> 32, 0, 2)),
            *(do(LOAD_KEPT, _END[0]), do(ABOVE, begin & 0xFFFFFFFF, 1, 0)),
            *(_ALLOWED, _REFUSED),  # allowed: it ends before the next range begins
        ]
    return [*code, _ALLOWED]
