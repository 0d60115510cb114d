"""Writes files forever.

catalogue: F04
exercise: week01.naive-bill
points: 0
sentence: got at most
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    written = 0
    for folder in ("/tmp", "/dev/shm"):
        with suppress(OSError):
            for number in range(100):
                with open(f"{folder}/sys602_attack_{number}", "wb") as file:
                    for _ in range(70):
                        written += file.write(bytes(1 << 20))
    raise RuntimeError(f"got at most 200 MB: {written >> 20}" if written < 200 << 20 else f"wrote {written >> 20} MB")
