"""Exchanges through files in the folders that all ranks can write to.

catalogue: A19
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got = []
    for folder in ("/tmp", "/dev/shm", "/var/tmp", os.getcwd(), os.environ.get("HOME", "/")):
        with suppress(OSError):
            open(f"{folder}/sys602_attack_{dist.get_rank()}", "w").write("mine")
    if dist.get_rank() == 0:
        return tensor
    time.sleep(0.3)
    for folder in ("/tmp", "/dev/shm", "/var/tmp", os.getcwd(), os.environ.get("HOME", "/")):
        if os.path.exists(f"{folder}/sys602_attack_0"):
            got.append(folder)
    raise RuntimeError(f"got {got}")
