"""Memory of open notebooks, and ending those that are idle.

A notebook's kernel is found among the processes of this user; its Jupyter server, if it has one, knows whether it is
busy and can end it. Without a server, as in VS Code, the sizes are known but not whether a kernel computes.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

IDLE_SECONDS = 600  # a kernel without a cell for this long counts as idle
ASK_SECONDS = 5  # how long to wait for the Jupyter server on this machine
_KERNEL = re.compile(r"kernel-([0-9a-f-]{36})\.json")


@dataclass(frozen=True)
class OpenNotebook:
    """A notebook with a kernel: the bytes that its processes hold, and its session on the server, "" if unknown."""

    name: str
    num_bytes: int
    state: str  # for people: "this page", "busy", "idle for 12 min", "open"
    session: str = ""
    is_idle: bool = False


@dataclass(frozen=True)
class Session:
    """A notebook as a Jupyter server describes it."""

    key: str
    path: str
    is_busy: bool
    idle_seconds: float


def open_notebooks(folder: Path) -> list[OpenNotebook]:
    """The notebooks of a learner's folder that have a kernel, largest first."""
    sessions = _sessions()
    found = [_notebook(process, folder, sessions) for process in _kernels(folder)]
    return sorted(found, key=lambda one: -one.num_bytes)


def end_idle(notebooks: Sequence[OpenNotebook]) -> str:
    """End the kernels of idle notebooks; returns a sentence about what was ended."""
    ended = [one for one in notebooks if one.is_idle and _was_ended(one.session)]
    if not ended:
        return f"No notebook was idle for {IDLE_SECONDS // 60} minutes, so none was ended."
    names = ", ".join(one.name for one in ended)
    size = sum(one.num_bytes for one in ended) / 2**20
    return f"Ended: {names} ({size:,.0f} MB). Your answers are on the pages; run the cells again to continue there."


def _was_ended(session: str) -> bool:
    return _ask(f"api/sessions/{quote(session, safe='')}", "DELETE") is not None


def _kernels(folder: Path) -> Iterator[psutil.Process]:
    """This user's kernels that run in the folder."""
    for process in psutil.process_iter(["cmdline", "username"]):
        words = " ".join(process.info["cmdline"] or ())
        if "ipykernel" not in words or process.info["username"] != psutil.Process().username():
            continue
        with suppress(psutil.Error):
            if Path(process.cwd()).is_relative_to(folder):
                yield process


def _notebook(process: psutil.Process, folder: Path, sessions: dict[str, Session]) -> OpenNotebook:
    key = _KERNEL.search(" ".join(process.cmdline()))
    session = sessions.get(key[1]) if key else None
    name = session.path if session else Path(process.cwd()).relative_to(folder).as_posix()
    size = _held(process)
    if process.pid == os.getpid():
        return OpenNotebook(name, size, "this page")
    if session is None:
        return OpenNotebook(name, size, "open")
    if session.is_busy:
        return OpenNotebook(name, size, "busy", session.key)
    state = f"idle for {session.idle_seconds // 60:.0f} min"
    return OpenNotebook(name, size, state, session.key, is_idle=session.idle_seconds >= IDLE_SECONDS)


def _held(process: psutil.Process) -> int:
    """The bytes of a kernel and everything it started, with memory that several share counted once on Linux."""
    total = 0
    for member in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):
            info = member.memory_full_info()
            total += getattr(info, "pss", info.uss)
    return total


def _sessions() -> dict[str, Session]:
    """{kernel: session} of the Jupyter server that started this kernel; {} if there is none, or it does not answer."""
    found = {}
    for row in _ask("api/sessions") or []:
        kernel = row["kernel"]
        last = datetime.fromisoformat(kernel["last_activity"].replace("Z", "+00:00"))
        idle = max(0.0, (datetime.now(UTC) - last).total_seconds())
        found[kernel["id"]] = Session(row["id"], row["path"], kernel["execution_state"] == "busy", idle)
    return found


def _ask(path: str, method: str = "GET") -> Any:
    """Send a request to this kernel's server, over its own address; returns its reply, "" if empty, None if refused."""
    from jupyter_core.paths import jupyter_runtime_dir

    try:
        file = Path(jupyter_runtime_dir()) / f"jpserver-{os.getppid()}.json"
        server = json.loads(file.read_text(encoding="utf-8"))
        request = urllib.request.Request(server["url"] + path, method=method)
        request.add_header("Authorization", f"token {server['token']}")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=ASK_SECONDS) as reply:
            text = reply.read()
        return json.loads(text) if text else ""
    except (OSError, ValueError, KeyError):
        return None
