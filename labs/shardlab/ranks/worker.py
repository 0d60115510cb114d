"""The warm worker: a process that has imported torch and nothing else, and forks the ranks of every call.

Started once by `torchrun` behind a notebook or a test session: `python -m shardlab.ranks.worker HOST PORT`. It runs no
operator, starts no thread and touches no GPU, so that each call begins as clean as a new process, and warm.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
from multiprocessing.connection import Client, Connection
from typing import Any

import numpy  # noqa: F401 - forked ranks find it imported
import torch

from shardlab.ranks.call import Call
from shardlab.ranks.supervise import adopt_orphans, end_with_parent, supervise
from shardlab.ranks.travel import PerRank, show_sources, unpack

KEY_VARIABLE = "SHARDLAB_WORKER_KEY"
LOG_VARIABLE = "SHARDLAB_TORCHRUN_LOGS"


def serve(connection: Connection) -> None:
    """Answer calls until the notebook closes the connection or dies."""
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):
            return
        if isinstance(request, Call):
            _answer(connection, request)


def _answer(connection: Connection, call: Call) -> None:
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

    try:
        outcome = supervise(
            _program(connection, call),
            num_ranks=call.num_ranks,
            timeout=call.timeout,
            transport=call.transport,
            observe=call.observe,
            emit=emit,
            cancelled=cancelled,
        )
        outcome.ledgers = []
        connection.send(("end", outcome))
    except (BrokenPipeError, ConnectionResetError):
        return  # the notebook has gone; the ranks have been ended, and the next recv ends the worker


def _program(connection: Connection, call: Call) -> Any:
    def program(rank: int) -> bytes:
        connection.close()  # a rank must not keep the notebook's connection open
        return run_payload(call.payload, rank)

    return program


def run_payload(payload: bytes, rank: int) -> bytes:
    """Run the packed function as one rank and pack its result; the source lines come first, for tracebacks."""
    import cloudpickle

    function, args, sources = unpack(payload)
    show_sources(sources)
    result = function(*[argument[rank] if isinstance(argument, PerRank) else argument for argument in args])
    return cloudpickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)


def main() -> None:
    """Connect to the notebook that started this worker, and serve it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the notebook's: it asks for a cancel
    end_with_parent()
    adopt_orphans()
    torch.set_num_threads(1)
    key = os.environ.pop(KEY_VARIABLE)
    shutil.rmtree(os.environ.pop(LOG_VARIABLE, ""), ignore_errors=True)  # torchrun's, empty; gone even if we are killed
    connection = Client((sys.argv[1], int(sys.argv[2])), authkey=bytes.fromhex(key))
    serve(connection)
    os._exit(0)


if __name__ == "__main__":
    main()
