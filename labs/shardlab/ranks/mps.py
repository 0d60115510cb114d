"""NVIDIA's Multi-Process Service (MPS): ranks on one GPU compute concurrently, each on its share of multiprocessors.

Without it the GPU time-slices between processes, and every message of a collective waits for several time slices.
With it each rank has what amounts to a small GPU, and a pipeline bubble takes real time.
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
START_LIMIT = 10.0  # seconds until the server's pipe must exist
QUIT_LIMIT = 10.0  # seconds that the server may take to quit
KEEPER = "from shardlab.ranks.mps import keep; keep()"


class MpsServer:
    """One MPS server that belongs to this process, with its own folder for pipes and logs.

    A keeper process runs the server. It stops the server and removes the folder as soon as its standard input closes,
    which also happens when this process is killed and cannot clean up itself.
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
                raise RuntimeError(
                    f"{PROGRAM} did not start: another user may be running it; `pkill {PROGRAM}` stops it"
                )
            time.sleep(0.02)

    @property
    def is_alive(self) -> bool:
        """Whether the server is running and this process owns it (a fork does not)."""
        return self.owner == os.getpid() and self._keeper.poll() is None

    def close(self) -> None:
        """Stop the server and remove its files."""
        if self.owner != os.getpid():
            return
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._keeper.wait(2 * QUIT_LIMIT)


def keep() -> None:
    """Run the server until our standard input closes or the server ends; then stop it and remove its folder."""
    signal.signal(signal.SIGCHLD, lambda number, frame: os.close(0))  # when the server ends, stop the wait below
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
    """Variables that give each of `num_ranks` ranks its share of one GPU; the first call starts the server.

    Empty if MPS is missing or does not start: the ranks then take turns, which is slower but gives the same results.
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
    """Stop the server; the next call starts a new one. A server whose client was killed accepts no new clients."""
    global _server  # noqa: PLW0603 - one server a process
    if _server is not None:
        atexit.unregister(_server.close)
        _server.close()
        _server = None
