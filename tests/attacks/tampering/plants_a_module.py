"""Plants modules in every folder that later jobs import from.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import sys


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for folder in [*sys.path, "/", "/usr/lib", "/lib", "/bin", "/etc", "/proc", "/sys", "/dev"]:
        with suppress(OSError):
            open(os.path.join(folder or "/tmp/.", "sys602_attack.py"), "w").close()
            got += [folder] if folder not in ("", "/tmp") else []
    raise RuntimeError(f"got {got}")
