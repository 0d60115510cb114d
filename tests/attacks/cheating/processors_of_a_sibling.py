"""Binds another rank to a processor and lets it read a bit from that.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    for number in range(1, 60):
        with suppress(OSError):
            if os.getpgid(number) != os.getpid():
                os.sched_setaffinity(number, {0})
                got.append(number)
        with suppress(OSError):
            if os.getpgid(number) != os.getpid():
                os.setpriority(os.PRIO_PROCESS, number, 5)
                got.append(number)
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")
