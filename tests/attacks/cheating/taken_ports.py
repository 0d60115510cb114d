"""Sends bits by which ports of the loopback are taken: no byte travels.

catalogue: own
exercise: week01.exchange
points: 0
sentence: got []
"""

import socket


def exchange(tensor, *, group):
    got = []
    try:
        server = socket.socket()
        if dist.get_rank() == 0:
            server.bind(("127.0.0.1", 29555))
            server.listen()
            time.sleep(0.6)
            return tensor
        time.sleep(0.3)
        server.bind(("127.0.0.1", 29555))
        got.append("a zero")
    except OSError as error:
        if error.errno == 98:
            got.append("a one")
    if dist.get_rank() == 0:
        return tensor
    raise RuntimeError(f"got {got}")
