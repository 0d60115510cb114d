"""Open notebooks: found among this user's processes, described by their Jupyter server, ended only when idle."""

import json
import os
import threading
import uuid
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from jupyter_client.manager import KernelManager
from shardlab.home import memory
from shardlab.home.memory import OpenNotebook

NAMES = ("busy", "fresh", "idle")


def session(name, state, minutes):
    last = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
    kernel = {"id": f"kernel-of-{name}", "execution_state": state, "last_activity": last}
    return {"id": f"session of/{name}", "path": f"{name}.ipynb", "kernel": kernel}


SESSIONS = [session("busy", "busy", 90), session("fresh", "idle", 2), session("idle", "idle", 30)]


class Server(BaseHTTPRequestHandler):
    """Answers like a Jupyter server with three notebooks, and notes which sessions are ended."""

    ended: list[str]

    def do_GET(self):
        self._answer(200 if self.headers["Authorization"] == "token secret" else 403, json.dumps(SESSIONS))

    def do_DELETE(self):
        self.ended.append(self.path)
        self._answer(204, "")

    def _answer(self, code, text):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server that looks like the parent of this process; `token` is what its file says."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    Server.ended = []
    with HTTPServer(("127.0.0.1", 0), Server) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()

        def say(token):
            about = {"url": f"http://127.0.0.1:{found.server_port}/", "token": token}
            (tmp_path / f"jpserver-{os.getppid()}.json").write_text(json.dumps(about))

        say("secret")
        yield say
        found.shutdown()


def test_the_server_says_who_is_busy_and_since_when(server):
    sessions = memory._sessions()
    assert [sessions[f"kernel-of-{name}"].is_busy for name in NAMES] == [True, False, False]
    assert sessions["kernel-of-idle"].path == "idle.ipynb" and sessions["kernel-of-idle"].idle_seconds >= 1800


def test_a_server_that_refuses_or_is_not_there_tells_nothing(server, tmp_path):
    server("wrong")
    assert memory._sessions() == {}
    (tmp_path / f"jpserver-{os.getppid()}.json").write_text("[")
    assert memory._sessions() == {}
    (tmp_path / f"jpserver-{os.getppid()}.json").unlink()
    assert memory._sessions() == {}


def test_only_idle_notebooks_are_ended(server):
    notebooks = [
        OpenNotebook("busy.ipynb", 1 << 20, "busy", "session of/busy"),
        OpenNotebook("idle.ipynb", 3 << 20, "idle for 30 min", "session of/idle", is_idle=True),
        OpenNotebook("start.ipynb", 1 << 20, "this page"),
    ]
    assert memory.end_idle(notebooks).startswith("Ended: idle.ipynb (3 MB).")
    assert Server.ended == ["/api/sessions/session%20of%2Fidle"]
    assert "none was ended" in memory.end_idle(notebooks[:1])


@pytest.mark.slow
def test_a_kernel_of_the_folder_is_found_with_its_memory(tmp_path, monkeypatch):
    inside, outside = tmp_path / "work", tmp_path / "other"
    (inside / "week01").mkdir(parents=True)
    outside.mkdir()
    kernel = str(uuid.uuid4())
    manager = KernelManager(connection_file=str(tmp_path / f"kernel-{kernel}.json"))
    manager.start_kernel(cwd=str(inside / "week01"))
    try:
        [found] = memory.open_notebooks(inside)
        assert found.name == "week01" and found.state == "open" and found.num_bytes > 1 << 20 and not found.is_idle
        assert memory.open_notebooks(outside) == []
        rows = {"busy": (True, 90), "idle": (False, 900), "fresh": (False, 90)}
        for name, (is_busy, seconds) in rows.items():
            known = {kernel: memory.Session("s", f"{name}.ipynb", is_busy, seconds)}
            monkeypatch.setattr(memory, "_sessions", lambda known=known: known)
            [found] = memory.open_notebooks(inside)
            assert found.name == f"{name}.ipynb" and found.is_idle == (name == "idle")
    finally:
        manager.shutdown_kernel(now=True)
