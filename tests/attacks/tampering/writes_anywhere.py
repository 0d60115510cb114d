"""Leaves a file in whatever folder takes one, beside its own empty ones.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import sys
import tempfile

import shardlab

OWN = {"/tmp", "/dev/shm", "/proc", tempfile.gettempdir()}


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    library = os.path.dirname(os.path.dirname(shardlab.__file__))
    for root in ("/", "/tmp", "/dev/shm", library, *sys.path):
        for folder, folders, _ in os.walk(root):
            with suppress(OSError):
                if folder not in OWN:
                    open(os.path.join(folder, "sys602_attack"), "w").close()
                    got.append(folder)
            folders[:] = [] if folder.count("/") > 9 or folder == "/usr" or "-packages/" in folder else folders
            folders[:] = [name for name in folders if os.path.join(folder, name) not in OWN]
    raise RuntimeError(f"got {sorted(set(got))}")
