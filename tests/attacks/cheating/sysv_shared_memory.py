"""Exchanges through a System V shared memory segment.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes


def exchange(tensor, *, group):
    libc, got = ctypes.CDLL(None), []
    libc.shmat.restype = ctypes.c_void_p
    if dist.get_rank() == 0:
        segment = libc.shmget(602602, 4096, 0o1666)
        if segment >= 0:
            ctypes.memmove(libc.shmat(segment, None, 0), b"mine", 4)
        return tensor
    time.sleep(0.3)
    segment = libc.shmget(602602, 4096, 0)
    if segment >= 0:
        got.append(ctypes.string_at(libc.shmat(segment, None, 0), 4))
    raise RuntimeError(f"got {got}")
