"""Writes into the result pipe forever: the supervisor must not keep it all.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: -
timeout: 3
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    pipes = [
        n for n in range(3, 64) if os.path.exists(f"/proc/self/fd/{n}") and "pipe" in os.readlink(f"/proc/self/fd/{n}")
    ]
    while True:
        for number in pipes:
            with suppress(OSError):
                os.write(number, (1 << 31).to_bytes(8, "little") + bytes(1 << 20))
