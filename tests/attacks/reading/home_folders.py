"""Looks into home folders, keys and system files.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    import sys

    got = []
    for path in (
        "/root/.ssh",
        "/root/.bashrc",
        "/home",
        "/etc/passwd",
        "/etc/shadow",
        "/var",
        "/srv",
        "/run/secrets",
        "/boot",
        "/sys/class",
    ):
        if any(entry.startswith(path + os.sep) for entry in sys.path):
            continue  # the course or its Python lies there: the way to them is in sight, and nothing beside it
        with suppress(OSError):
            got += [path] if (os.listdir(path) if os.path.isdir(path) else open(path).read(1)) else []
    raise RuntimeError(f"got {got}")
