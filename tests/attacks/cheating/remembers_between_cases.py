"""Leaves a note for the next case in files and modules: every job begins anew.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
cases: all
"""

import sys

BEFORE = [name for name in ("/tmp/sys602_attack", "/dev/shm/sys602_attack") if os.path.exists(name)]
BEFORE += [name for name in sys.modules if "sys602_attack" in name]


def naive_all_reduce_bill(num_ranks, num_bytes):
    for name in ("/tmp/sys602_attack", "/dev/shm/sys602_attack"):
        open(name, "w").close()
    sys.modules["sys602_attack"] = sys
    raise RuntimeError(f"got {BEFORE}")
