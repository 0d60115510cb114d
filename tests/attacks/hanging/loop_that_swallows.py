"""Sleeps forever and swallows whatever interrupts it.

catalogue: C02
exercise: week01.naive-bill
points: 0
sentence: had not finished
timeout: 1.5
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass
