"""Exchanges through a pseudo-terminal, whose other end has a name that all ranks see.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    if dist.get_rank() == 0:
        with suppress(OSError):
            main, other = os.openpty()
            os.write(main, b"mine\n")
            time.sleep(0.6)
        return tensor
    time.sleep(0.3)
    with suppress(OSError):
        for name in os.listdir("/dev/pts"):
            got.append(name)
    with suppress(OSError):
        os.open("/dev/ptmx", os.O_RDWR)
        got.append("a terminal")
    raise RuntimeError(f"got {got}")
