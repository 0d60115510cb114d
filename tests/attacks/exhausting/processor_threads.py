"""Keeps many threads busy at once.

catalogue: F08
exercise: week01.naive-bill
points: 0
sentence: ended
timeout: 1.5
"""

import threading


def naive_all_reduce_bill(num_ranks, num_bytes):
    torch.set_num_threads(4)
    for _ in range(16):
        threading.Thread(target=lambda: [torch.ones(500, 500) @ torch.ones(500, 500) for _ in range(10**6)]).start()
    while True:
        pass
