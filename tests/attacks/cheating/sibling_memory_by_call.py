"""Reads the memory of other processes with process_vm_readv and borrows their descriptors with pidfd_getfd.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes


def exchange(tensor, *, group):
    got, libc = [], ctypes.CDLL(None)
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_size_t * 2)(id(tensor), 8)
    for number in range(1, 60):
        with suppress(OSError):
            if os.getpgid(number) == os.getpid():  # one of its own threads
                continue
        if libc.process_vm_readv(number, local, 1, remote, 1, 0) == 8:
            got.append(f"memory of {number}")
        handle = libc.syscall(434, number, 0)
        if handle >= 0 and any(libc.syscall(438, handle, other, 0) >= 0 for other in range(40)):
            got.append(f"a file of {number}")
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")
