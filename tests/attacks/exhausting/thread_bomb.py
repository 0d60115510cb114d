"""Starts threads forever.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: start new thread
timeout: 4
"""

import threading


def naive_all_reduce_bill(num_ranks, num_bytes):
    for _ in range(5000):
        threading.Thread(target=lambda: time.sleep(600), daemon=True).start()
    return 0, 0
