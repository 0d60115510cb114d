"""Start a separate JupyterLab for a test, and end it with everything that it started."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PLAIN_LAB = {
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},  # render every cell
    "@jupyterlab/fileeditor-extension/plugin.jupyterlab-settings": {},
}
WITHOUT_NEWS = {  # students' settings already do this
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {"fetchNews": "false", "checkForUpdates": False},
}


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, its token and the folder it serves."""

    url: str
    token: str
    folder: Path

    def at(self, path: str) -> str:
        """Return the address of a page, token included."""
        return f"{self.url}{path}?token={self.token}"


@contextlib.contextmanager
def running_lab(folder: Path, home: Path, settings_of: Path | None = None) -> Iterator[Lab]:
    """Start JupyterLab on a free loopback port with a separate home, and end it with all its kernels.

    `settings_of` is an additional configuration folder, such as the students' course/.jupyter.
    """
    settings = home / "settings"
    for name, values in (PLAIN_LAB | ({} if settings_of else WITHOUT_NEWS)).items():
        (settings / name).parent.mkdir(parents=True, exist_ok=True)
        (settings / name).write_text(json.dumps(values))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    environment = os.environ | {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_CONFIG_PATH": str(settings_of or ""),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "NBGRADER_EXCHANGE": str(home / "exchange"),
        "OMP_NUM_THREADS": "1",
    }
    (home / "exchange").mkdir(parents=True, exist_ok=True)
    (home / "exchange").chmod(0o777)
    options = [f"--port={port}", "--ip=127.0.0.1", "--no-browser", f"--IdentityProvider.token={token}"]
    options += ["--ServerApp.port_retries=0"] + (["--allow-root"] if os.geteuid() == 0 else [])
    log = (home / "jupyterlab.log").open("w")
    command = [sys.executable, "-m", "jupyter", "lab", *options]
    server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for_server(f"http://127.0.0.1:{port}/api?token={token}", server, home / "jupyterlab.log")
        yield Lab(f"http://127.0.0.1:{port}", token, folder)
    finally:
        server.send_signal(signal.SIGTERM)  # the server ends its kernels first
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        log.close()


def wait_for_server(address: str, server: subprocess.Popen, log: Path, seconds: float = 90) -> None:
    """Wait until the server answers; fail with the end of its log."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(address, timeout=5).close()
            return
        time.sleep(0.3)
    pytest.fail(f"JupyterLab did not answer within {seconds} s:\n{log.read_text()[-2000:]}")
