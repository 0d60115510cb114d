"""Maps a terabyte.

catalogue: F03
exercise: week01.naive-bill
points: 0
sentence: Cannot allocate memory
"""

import mmap


def naive_all_reduce_bill(num_ranks, num_bytes):
    mmap.mmap(-1, 1 << 40)
    return 0, 0
