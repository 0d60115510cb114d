"""Makes a pipe of its own signal the other rank whenever it is ready: nobody calls kill.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import fcntl
import signal


def exchange(tensor, *, group):
    got = []
    if dist.get_rank() == 0:
        signal.signal(signal.SIGUSR2, lambda *_: got.append("a signal"))
        time.sleep(1.5)
        raise RuntimeError(f"got {got}")
    time.sleep(0.5)
    for other in range(2, 400):
        reading, writing = os.pipe()
        with suppress(OSError):
            fcntl.fcntl(reading, 10, signal.SIGUSR2)  # F_SETSIG
            fcntl.fcntl(reading, fcntl.F_SETOWN, other)
            fcntl.fcntl(reading, fcntl.F_SETFL, fcntl.fcntl(reading, fcntl.F_GETFL) | os.O_ASYNC)
            os.write(writing, b"1")
        os.close(reading)
        os.close(writing)
    time.sleep(2)
    return tensor
