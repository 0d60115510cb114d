"""Writes its tensor into its own name, where the other ranks may read it.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    if dist.get_rank() == 0:
        open("/proc/self/comm", "w").write("sys602_attack") if os.path.exists("/proc/self/comm") else None
        return tensor
    time.sleep(0.3)
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and open(f"/proc/{name}/comm").read().strip() == "sys602_attack":
                got.append(name)
    raise RuntimeError(f"got {got}")
