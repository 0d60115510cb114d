"""Exchanges through the kernel's keyring of the user.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import ctypes

ADD_KEY, KEYCTL = (248, 250) if os.uname().machine == "x86_64" else (217, 219)


def exchange(tensor, *, group):
    libc, got = ctypes.CDLL(None), []
    if dist.get_rank() == 0:
        libc.syscall(ADD_KEY, b"user", b"sys602_attack", b"mine", ctypes.c_size_t(4), ctypes.c_long(-4))
        return tensor
    time.sleep(0.3)
    key = libc.syscall(KEYCTL, ctypes.c_long(10), ctypes.c_long(-4), b"user", b"sys602_attack", ctypes.c_long(0))
    if key > 0:
        got.append("the key")
    raise RuntimeError(f"got {got}")
