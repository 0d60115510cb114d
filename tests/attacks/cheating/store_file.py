"""Exchanges through the open file behind the group's store: every rank inherits it.

catalogue: A19
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    numbers = [number for number in range(3, 200) if os.path.lexists(f"/proc/self/fd/{number}")]
    for number in numbers:  # those of the start: every file that is opened here is another one
        with suppress(OSError):
            if "memfd" in os.readlink(f"/proc/self/fd/{number}"):
                file = os.open(f"/proc/self/fd/{number}", os.O_RDWR)
                if dist.get_rank() == 0:
                    os.pwrite(file, b"sys602_attack", 8192)
                else:
                    time.sleep(0.2)
                    if os.pread(file, 13, 8192) == b"sys602_attack":
                        got.append(os.readlink(f"/proc/self/fd/{number}"))
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")
