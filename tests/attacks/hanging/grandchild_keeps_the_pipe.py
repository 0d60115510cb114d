"""A grandchild in its own session keeps all pipes open while the rank itself ends without a result.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: exit code 0
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    os._exit(0)
