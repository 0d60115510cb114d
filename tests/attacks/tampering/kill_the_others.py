"""Rank 0 ends all other ranks and returns a number of its own.

catalogue: own
exercise: week00.first-all-reduce
points: 0
sentence: Rank
"""


def total_of(tensor, *, group):
    if dist.get_rank() == 0:
        for number in range(2, 300):
            with suppress(OSError):
                if number != os.getpid():
                    os.kill(number, 9)
        return tensor
    time.sleep(1)
    return tensor
