"""Uses programs that run with their owner's rights.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import subprocess


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for command in (["su", "-c", "id"], ["sudo", "-n", "id"], ["mount", "-t", "tmpfs", "x", "/tmp"], ["bwrap", "id"]):
        with suppress(OSError):
            if subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=2).returncode == 0:
                if command[0] not in ("su",):
                    got.append(command[0])
    with suppress(OSError):
        os.chmod("/tmp", 0o7777)
        os.setuid(os.getuid() + 1)
        got.append("another user")
    raise RuntimeError(f"got {got}")
