"""Writes into descriptors 3 and 4, which the sandbox's own program uses to talk with the judge.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for number in (3, 4):
        with suppress(OSError):
            if "pipe" in os.readlink(f"/proc/self/fd/{number}"):
                got.append(f"pipe {number}")
    raise RuntimeError(f"got {got}")
