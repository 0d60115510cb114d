"""Announces a long result on every pipe, hands in half of it and sleeps.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""

import struct


def naive_all_reduce_bill(num_ranks, num_bytes):
    for number in range(3, 64):
        with suppress(OSError):
            os.write(number, struct.pack("<Q", 1000) + b"R")
    time.sleep(600)
