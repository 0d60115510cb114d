"""Takes the finder that refuses masked modules out of Python's list and imports again.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import importlib
import sys


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    sys.meta_path[:] = [finder for finder in sys.meta_path if "Masked" not in type(finder).__name__]
    importlib.invalidate_caches()
    with suppress(Exception):
        module = importlib.import_module("shardlab.costs.traffic")
        got += [name for name in vars(module) if "bytes" in name or "messages" in name]
    raise RuntimeError(f"got {got}")
