"""Reads environment and command line of the host's processes.

catalogue: D07
exercise: week01.naive-bill
points: 0
sentence: got []
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for name in ["1", str(os.getppid()), *os.listdir("/proc")]:
        for what in ("environ", "cmdline", "maps"):
            with suppress(OSError):
                text = open(f"/proc/{name}/{what}").read()
                if name.isdigit() and int(name) != os.getpid() and text:
                    got.append(f"{name}/{what}")
    raise RuntimeError(f"got {got}")
