"""Fills files that have no name and stand in no folder.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: -
timeout: 4
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    written = 0
    with suppress(OSError):
        for _ in range(200):
            file = os.memfd_create("sys602_attack")
            for _ in range(60):
                written += os.write(file, bytes(1 << 20))
    raise RuntimeError(f"wrote {written >> 20} MB")
