"""Reads the memory of every other process it can see.

catalogue: E11
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes


def exchange(tensor, *, group):
    got, libc = [], ctypes.CDLL(None)
    for name in [str(n) for n in range(1, 60)]:
        if int(name) == os.getpid():
            continue
        with suppress(OSError):
            open(f"/proc/{name}/mem", "rb")
            got.append(f"memory of {name}")
        if libc.ptrace(16, int(name), 0, 0) == 0:
            got.append(f"trace of {name}")
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")
