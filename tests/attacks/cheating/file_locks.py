"""Sends bits by locking files that all ranks can read.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import fcntl


def exchange(tensor, *, group):
    got, file = [], open(torch.__file__)
    if dist.get_rank() == 0:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return tensor, file
    time.sleep(0.3)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        got.append("a bit")
    except OSError:
        pass
    raise RuntimeError(f"got {got}")
