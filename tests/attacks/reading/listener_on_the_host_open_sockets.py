"""Connects to the host's listener in a job that may open sockets: it has a network of its own.

catalogue: D03
exercise: week00.first-all-reduce
points: 0
sentence: got []
sealed: no
"""

import socket


def total_of(tensor, *, group):
    got = []
    for address in ("127.0.0.1", "::1"):
        with suppress(OSError):
            got.append(socket.create_connection((address, int("@PORT@")), 1).recv(9))
    got += [name for _, name in socket.if_nameindex() if name != "lo"]
    raise RuntimeError(f"got {got}")
