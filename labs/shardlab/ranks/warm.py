"""The notebook's side of the warm worker: start it once, send it calls, print the ranks' output."""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Listener
from typing import Any

from shardlab.ranks.call import Outcome, RankCall
from shardlab.ranks.travel import child_environment
from shardlab.ranks.watched import anonymous_file, content_of
from shardlab.ranks.worker import KEY_VARIABLE, send_at_once

START_LIMIT = 120.0  # seconds: importing torch from a cold disk on a busy machine
ANSWER_LIMIT = 30.0  # seconds beyond a call's timeout before we give up on the worker
CANCEL_LIMIT = 10.0  # seconds that an interrupted worker has to kill its ranks
IDLE_LIMIT = 600.0  # seconds without a call after which a worker is not used again
IDLE_GRACE = 60.0  # seconds beyond IDLE_LIMIT until the worker ends itself, so that it never ends during a call

Printer = Callable[[int, str], None]


class WorkerLost(RuntimeError):
    """The warm worker ended or does not answer; the next call starts a new one."""


class WarmWorker:
    """One `torchrun` with one idle worker on this machine, and the connection to it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._last_used = time.monotonic()
        key = secrets.token_bytes(16)
        with Listener(("127.0.0.1", 0), authkey=key) as listener:
            host, port = listener.address
            complaints = anonymous_file()
            self._process = subprocess.Popen(
                [*torchrun(1), "-m", "shardlab.ranks.worker", str(host), str(port), str(IDLE_LIMIT + IDLE_GRACE)],
                env=child_environment() | {KEY_VARIABLE: key.hex()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                start_new_session=True,  # Ctrl-C in a terminal is ours to handle
            )
            try:
                self._connection = self._accept(listener, complaints)
                send_at_once(self._connection)
            except BaseException:
                self.close()
                raise
            finally:
                os.close(complaints)

    def _accept(self, listener: Listener, complaints: int) -> Connection:
        """Wait for the worker to connect, as long as its process is alive."""
        listening = listener._listener._socket  # type: ignore[attr-defined] - the library offers no time limit
        listening.settimeout(0.5)
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                said = content_of(complaints).strip()[-1000:]
                raise WorkerLost(f"torchrun did not start a worker; run `shardlab doctor`. torchrun's output:\n{said}")
            with suppress(TimeoutError):
                connection = listener.accept()
                return connection
        raise WorkerLost(f"the worker did not start within {START_LIMIT:.0f} s: run `shardlab doctor`")

    @property
    def is_alive(self) -> bool:
        """Whether this process owns the worker (a fork does not), it runs, is connected, and was used recently."""
        if self.owner != os.getpid() or self._process.poll() is not None or self._connection.closed:
            return False
        if not self._lock.acquire(blocking=False):
            return True  # another thread is in a call, and the worker's messages belong to that call
        try:
            is_idle = time.monotonic() - self._last_used > IDLE_LIMIT
            return not is_idle and not self._connection.poll()  # between calls the only event is a closed connection
        finally:
            self._lock.release()

    def call(self, call: RankCall, printer: Printer) -> Outcome:
        """Run one call and print output as it arrives. Ctrl-C kills the ranks, then raises KeyboardInterrupt here.

        Calls from several threads run one after another.
        """
        with self._lock:
            try:
                with _whole_message():
                    self._connection.send(call)
                outcome = self._collect("end", printer, call.timeout + ANSWER_LIMIT)
                self._last_used = time.monotonic()
                return outcome
            except KeyboardInterrupt:
                self._cancel()
                self._last_used = time.monotonic()
                raise
            except (EOFError, OSError) as error:
                self.close()
                raise WorkerLost("the warm worker ended during the call; call again to start a new one") from error

    def _cancel(self) -> None:
        """Kill the running call's ranks but keep the worker, unless it does not answer or Ctrl-C is pressed again."""
        try:
            with _whole_message():
                self._connection.send("cancel")
            self._collect("idle", lambda rank, text: None, CANCEL_LIMIT)
        except (OSError, EOFError, WorkerLost, KeyboardInterrupt):
            self.close()

    def _collect(self, last: str, printer: Printer, limit: float) -> Any:
        """Print output until the message of kind `last` arrives, and return its content."""
        deadline = time.monotonic() + limit
        while self._connection.poll(max(0.0, deadline - time.monotonic())):
            with _whole_message():
                kind, *content = self._connection.recv()
            if kind == last:
                return content[0] if content else None
            if kind == "output":
                printer(*content)
        self.close()
        raise WorkerLost("the warm worker did not answer and was stopped; call again to start a new one")

    def close(self) -> None:
        """Stop the worker and torchrun, and leave no files."""
        if self.owner != os.getpid():
            return
        if hasattr(self, "_connection"):
            self._connection.close()  # the worker notices and exits, and then torchrun does
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(2.0)
        end_session(self._process)


@contextmanager
def _whole_message() -> Iterator[None]:
    """Delay Ctrl-C while a message is read or written: a partial message would corrupt the stream."""
    if threading.current_thread() is not threading.main_thread():  # Ctrl-C only reaches the main thread
        yield
        return
    held: list[tuple] = []
    before = signal.signal(signal.SIGINT, lambda *arguments: held.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held and callable(before):
            before(*held[0])


def end_session(process: subprocess.Popen) -> None:
    """Kill a process that was started in its own session, and all its children."""
    import psutil

    if process.poll() is not None:
        return
    with suppress(psutil.NoSuchProcess):
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
    process.wait()


def torchrun(num_processes: int) -> list[str]:
    """The command that starts torchrun on this machine only, on loopback, on a port that it chooses."""
    return [
        sys.executable,
        *("-m", "torch.distributed.run"),
        "--nnodes=1",
        f"--nproc-per-node={num_processes}",
        "--max-restarts=0",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0",
        "--local-addr=127.0.0.1",
        f"--log-dir={os.devnull}",  # otherwise it creates a folder
    ]


_worker: WarmWorker | None = None
_starting: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)  # by process: forks inherit no held lock


def worker() -> WarmWorker:
    """This process's warm worker, started on first use."""
    global _worker  # noqa: PLW0603 - one worker per process
    with _starting[os.getpid()]:
        if _worker is None or not _worker.is_alive:
            if _worker is not None:
                _worker.close()
            _worker = WarmWorker()
            atexit.register(_worker.close)
        return _worker
