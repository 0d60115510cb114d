"""Answers rightly and leaves threads behind that never end.

catalogue: C11
exercise: week01.naive-bill
points: 1
sentence: Correct
cases: all
"""

import threading


def naive_all_reduce_bill(num_ranks, num_bytes):
    threading.Thread(target=lambda: time.sleep(600), daemon=False).start()
    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes
