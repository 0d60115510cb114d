"""Instructions of the kernel's packet filter (BPF), from which system-call filters are built (`syscalls`, `mapped`)."""

from __future__ import annotations

import struct

LOAD, LOAD_NUMBER, LOAD_KEPT, KEEP = 0x20, 0x00, 0x60, 0x02  # from the call, a constant, a scratch slot; to one
TO_X, ADD, ADD_X, AND = 0x07, 0x04, 0x0C, 0x54
JUMP, EQUAL, ABOVE, AT_LEAST, AT_LEAST_X, ANY_BIT, RETURN = 0x05, 0x15, 0x25, 0x35, 0x3D, 0x45, 0x06
NUMBER_AT, MACHINE_AT, FIRST_AT = 0, 4, 16  # offsets in seccomp_data; an argument has 8 bytes, the lower half first
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, EAGAIN, ENOSYS = 1, 11, 38


def do(code: int, value: int = 0, if_true: int = 0, if_false: int = 0) -> bytes:
    """Encode one instruction; a conditional one skips `if_true` or `if_false` of the following instructions."""
    return struct.pack("HBBI", code, if_true, if_false, value)
