"""The warm worker: a process that has imported torch and does no work, and forks the ranks of every call.

`torchrun` starts it once per notebook or test session: `python -m shardlab.ranks.worker HOST PORT SECONDS`. It runs no
operator, starts no thread and does not use a GPU, so a forked rank is as clean as a new process but starts faster. It
ends when it has had no call for SECONDS.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from importlib import import_module
from multiprocessing.connection import Client, Connection
from typing import Any

import cloudpickle  # noqa: F401 - imported here so that forked ranks need not import them
import numpy  # noqa: F401
import torch

from shardlab.ranks.call import RankCall
from shardlab.ranks.rendezvous import claim_torchrun
from shardlab.ranks.shared_pages import prepare_to_fork
from shardlab.ranks.supervise import adopt_orphans, end_with_parent, supervise
from shardlab.ranks.travel import run_payload

KEY_VARIABLE = "SHARDLAB_WORKER_KEY"


def serve(connection: Connection, idle_seconds: float) -> None:
    """Answer calls until the notebook closes the connection or dies, or sends no call for `idle_seconds`.

    The answer to a call is any number of ("output", rank, text) messages and one ("end", outcome). "cancel" stops the
    running call, if any, and is answered by ("idle",) afterwards; it may arrive just after the call has ended.
    """
    try:
        while connection.poll(idle_seconds):
            request = connection.recv()
            was_cancelled = _answer(connection, request) if isinstance(request, RankCall) else True
            if was_cancelled:
                connection.send(("idle",))
    except (EOFError, OSError):
        return  # the notebook is gone


def _answer(connection: Connection, call: RankCall) -> bool:
    """Run one call and send its outcome; returns whether a cancel was received meanwhile."""
    gone = False

    def emit(rank: int, text: str) -> None:
        connection.send(("output", rank, text))

    def cancelled() -> bool:
        nonlocal gone
        if not gone and connection.poll():
            try:
                gone = connection.recv() == "cancel"
            except (EOFError, OSError):
                gone = True
        return gone

    outcome = supervise(
        _program(connection, call),
        num_ranks=call.num_ranks,
        timeout=call.timeout,
        transport=call.transport,
        environment=call.environment,
        observe=call.observe,
        emit=emit,
        cancelled=cancelled,
    )
    outcome.ledgers = []
    connection.send(("end", outcome))
    return gone


def _program(connection: Connection, call: RankCall) -> Any:
    def program(rank: int) -> list[bytes]:
        connection.close()  # a rank must not keep the notebook's connection open
        return [run_payload(call.payload, rank)]

    return program


def send_at_once(connection: Connection) -> None:
    """Disable Nagle's algorithm, which would delay the body of a large message by 40 ms until its header is acked."""
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def main() -> None:
    """Connect to the notebook that started this worker, and serve it."""
    import_module("torch._dynamo")  # a rank's first optimizer would import it: 800 modules, a second or two
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the notebook handles Ctrl-C and sends a cancel
    end_with_parent()
    adopt_orphans()
    claim_torchrun()
    torch.set_num_threads(1)
    prepare_to_fork()
    key = os.environ.pop(KEY_VARIABLE)
    connection = Client((sys.argv[1], int(sys.argv[2])), authkey=bytes.fromhex(key))
    send_at_once(connection)
    serve(connection, float(sys.argv[3]))
    os._exit(0)


if __name__ == "__main__":
    main()
