"""A thread that keeps replacing functions of every module while the check runs.

catalogue: A12
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""

import sys
import threading


def swap():
    for _ in range(200):
        for name in ("__main__", "autograder.jobs.call", "autograder.jobs.plain"):
            module = sys.modules.get(name)
            if module is not None:
                module.judge = module.close = lambda *args: True
        time.sleep(0.001)


threading.Thread(target=swap, daemon=True).start()


def naive_all_reduce_bill(num_ranks, num_bytes):
    return 0, 0
