"""A real JupyterLab and a real Chromium; nothing leaves this machine's loopback."""

import contextlib
import json
import os
import secrets
import shutil
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
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
]
PLAIN_LAB = {
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {
        "windowingMode": "none"
    },  # every cell is in the page
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/fileeditor-extension/plugin.jupyterlab-settings": {},
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, and skip it with a reason where no Chromium is installed."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="no chromium on PATH: apt-get install chromium"))


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, its token and the folder that it shows."""

    url: str
    token: str
    folder: Path

    def at(self, path: str) -> str:
        """Return the address of a page, token included."""
        return f"{self.url}{path}?token={self.token}"


@contextlib.contextmanager
def running_lab(folder: Path, home: Path) -> Iterator[Lab]:
    """Start JupyterLab on a free loopback port with a home of its own, and end it with all its kernels."""
    settings = home / "settings"
    for name, values in PLAIN_LAB.items():
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


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; as root it cannot use its own sandbox."""
    flags = FLAGS + (["--no-sandbox"] if os.geteuid() == 0 else [])
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, tmp_path) -> Iterator[Page]:
    """An empty page that reaches loopback addresses only, and leaves a screenshot in the test's folder."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(60_000)
    page.route(lambda url: urlsplit(url).hostname not in ("127.0.0.1", None), lambda route: route.abort())
    yield page
    page.screenshot(path=tmp_path / "at_the_end.png")
    page.close()
