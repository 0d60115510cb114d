"""Exchanges through the store that the process group was made with.

catalogue: A19
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    with suppress(Exception):
        store = dist.distributed_c10d._get_default_store()
        if dist.get_rank() == 0:
            store.set("sys602_attack", "mine")
            return tensor
        time.sleep(0.3)
        got.append(store.get("sys602_attack"))
    raise RuntimeError(f"got {got}")
