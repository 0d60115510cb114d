"""Makes empty files forever: each costs memory though it has no bytes.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got at most
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    made = 0
    with suppress(OSError):
        for number in range(60_000):
            os.close(os.open(f"/tmp/{number}", os.O_CREAT | os.O_WRONLY))
            made += 1
    raise RuntimeError(f"got at most 20000: {made}" if made <= 20000 else f"made {made}")
