"""Opens a key-value server of torch on the loopback and exchanges through it.

catalogue: A19
exercise: week01.exchange
points: 0
sentence: got []
"""

import datetime


def exchange(tensor, *, group):
    got, limit = [], datetime.timedelta(seconds=1)
    with suppress(Exception):
        store = dist.TCPStore(
            "127.0.0.1", 29411, 2, is_master=dist.get_rank() == 0, timeout=limit, wait_for_workers=False
        )
        store.set(str(dist.get_rank()), "mine")
        got.append(store.get(str(dist.get_rank() ^ 1)))
    if dist.get_rank() == 0:
        time.sleep(1)
        return tensor
    raise RuntimeError(f"got {got}")
