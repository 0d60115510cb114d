"""NVIDIA's Multi-Process Service (MPS): ranks on one GPU compute at one time, each on its share of the multiprocessors.

Without it the GPU gives whole turns to one process after the other, and every message of a collective waits for some.
With it each rank is a small GPU of its own, and a bubble of a pipeline is time that really passes.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PROGRAM = "nvidia-cuda-mps-control"
START_LIMIT = 10.0  # seconds until the server's pipe is there
QUIT_LIMIT = 10.0  # seconds in which it ends after its last client
KEEPER = "from shardlab.ranks.mps import keep; keep()"


class MpsServer:
    """One MPS server of this process, with a folder of its own for its pipes and logs.

    Between the two stands a keeper, which ends server and folder as soon as its standard input closes: this process may
    be killed, and could then end nothing by itself.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix="shardlab-mps-"))
        self.environment = {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "log"),
        }
        for folder in self.environment.values():
            Path(folder).mkdir()
        self._keeper = subprocess.Popen(
            [sys.executable, "-c", KEEPER],
            env=os.environ | self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._wait_for_pipe()
        except BaseException:
            self.close()
            raise

    def _wait_for_pipe(self) -> None:
        deadline = time.monotonic() + START_LIMIT
        while not (self.folder / "pipe" / "control").exists():
            if self._keeper.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{PROGRAM} did not start: another user may run one; `pkill {PROGRAM}` ends it")
            time.sleep(0.02)

    @property
    def is_alive(self) -> bool:
        """Whether this process owns the server (a fork does not) and it runs."""
        return self.owner == os.getpid() and self._keeper.poll() is None

    def close(self) -> None:
        """End the server and leave no file."""
        if self.owner != os.getpid():
            return
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._keeper.wait(2 * QUIT_LIMIT)


def keep() -> None:
    """Run the server until our standard input closes or the server ends; then end it and remove its folder."""
    signal.signal(signal.SIGCHLD, lambda number, frame: os.close(0))  # the server ended: so does the wait below
    server = subprocess.Popen([PROGRAM, "-f"], stdin=subprocess.DEVNULL)
    with suppress(OSError):
        while os.read(0, 1):
            pass
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run([PROGRAM], input="quit\n", text=True, timeout=QUIT_LIMIT, capture_output=True, check=False)
        server.wait(QUIT_LIMIT)
    with suppress(ProcessLookupError):
        server.kill()
    server.wait()
    shutil.rmtree(Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"]).parent, ignore_errors=True)


_server: MpsServer | None = None


def environment(num_ranks: int) -> dict[str, str]:
    """Variables that give each of `num_ranks` ranks its share of one GPU; the server starts at the first call.

    Empty where there is no MPS or it does not start: the ranks then take turns, which is slow and right.
    """
    global _server  # noqa: PLW0603 - one server a process
    if shutil.which(PROGRAM) is None:
        return {}
    if _server is None or not _server.is_alive:
        if _server is not None:
            _server.close()
        try:
            _server = MpsServer()
        except (OSError, RuntimeError):
            return {}
        atexit.register(_server.close)
    return _server.environment | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(1, 100 // num_ranks))}


def renew() -> None:
    """End the server; the next call starts another. One whose client was killed lets no new client in."""
    global _server  # noqa: PLW0603 - one server a process
    if _server is not None:
        atexit.unregister(_server.close)
        _server.close()
        _server = None
