"""Starts two thousand children that sleep.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: ended
timeout: 4
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    for _ in range(2000):
        with suppress(OSError):
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
    raise RuntimeError("got two thousand children")
