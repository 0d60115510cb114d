"""Takes memory in many children, each below the limit of one process.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: ended
timeout: 5
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    for _ in range(16):
        if os.fork() == 0:
            kept = torch.ones(128 << 20)
            time.sleep(600 + float(kept[0]))
    time.sleep(600)
    return 0, 0
