"""Opens devices and kernel files.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: got []
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    for path in (
        "/dev/mem",
        "/dev/kmsg",
        "/dev/vda",
        "/dev/kvm",
        "/dev/fuse",
        "/proc/kcore",
        "/proc/kallsyms",
        "/sys/kernel",
    ):
        with suppress(OSError):
            got += [path] if os.path.isdir(path) or open(path, "rb").read(1) else []
    raise RuntimeError(f"got {got}")
