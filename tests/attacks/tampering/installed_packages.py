"""Changes installed packages, start-up files and byte code for those who come next.

catalogue: E10
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import site
import sys

import shardlab


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    folders = [*site.getsitepackages(), shardlab.__path__[0], sys.prefix, "/usr/bin", "/etc", "@ROOT@", "/"]
    for folder in folders:
        for name in ("sys602_attack.pth", "__pycache__/sys602_attack.pyc"):
            with suppress(OSError):
                open(os.path.join(folder, name), "w").write("import os")
                got.append(folder)
    with suppress(OSError):
        open(torch.__file__, "a").write("\n")
        got.append("torch")
    raise RuntimeError(f"got {got}")
