"""Connects to a listener that the test itself has opened on the host's loopback.

catalogue: D03
exercise: week01.naive-bill
points: 0
sentence: got []
"""

import socket


def naive_all_reduce_bill(num_ranks, num_bytes):
    got = []
    with suppress(OSError):
        got.append(socket.create_connection(("127.0.0.1", int("@PORT@")), 2).recv(9))
    raise RuntimeError(f"got {got}")
