"""Exchanges through an abstract unix socket, which belongs to no folder.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import socket


def exchange(tensor, *, group):
    got = []
    with suppress(OSError):
        if dist.get_rank() == 0:
            server = socket.socket(socket.AF_UNIX)
            server.bind("\0sys602_attack")
            server.listen()
            server.settimeout(1)
            server.accept()[0].send(b"mine")
        else:
            time.sleep(0.2)
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(1)
            client.connect("\0sys602_attack")
            got.append(client.recv(4))
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")
