"""Stops itself, so that no signal but the last one reaches it.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""

import signal


def naive_all_reduce_bill(num_ranks, num_bytes):
    os.kill(os.getpid(), signal.SIGSTOP)
    return 0, 0
