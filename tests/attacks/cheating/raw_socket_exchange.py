"""Exchanges through a plain TCP connection of its own.

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
            server = socket.create_server(("127.0.0.1", 29556))
            server.settimeout(1)
            server.accept()[0].send(b"mine")
        else:
            time.sleep(0.2)
            got.append(socket.create_connection(("127.0.0.1", 29556), 1).recv(4))
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")
