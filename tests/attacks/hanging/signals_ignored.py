"""Ignores and blocks every signal that can be, then loops.

catalogue: C07
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""

import signal

for number in range(1, 65):
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))


def naive_all_reduce_bill(num_ranks, num_bytes):
    while True:
        time.sleep(1)
