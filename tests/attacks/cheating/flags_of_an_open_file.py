"""Writes a bit into the flags of every file that it inherited: another rank may hold the same open file.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import fcntl


def exchange(tensor, *, group):
    names = [int(name) for name in os.listdir("/proc/self/fd")]
    before, got = {}, []
    for name in names:
        with suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                before[name] = fcntl.fcntl(name, fcntl.F_GETFL)
    dist.barrier(group)
    for name, flags in before.items() if dist.get_rank() == 0 else ():
        fcntl.fcntl(name, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    dist.barrier(group)
    if dist.get_rank() == 1:
        got = [
            os.readlink(f"/proc/self/fd/{n}") for n, flags in before.items() if fcntl.fcntl(n, fcntl.F_GETFL) != flags
        ]
    dist.barrier(group)
    for name, flags in before.items():
        fcntl.fcntl(name, fcntl.F_SETFL, flags)
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")
