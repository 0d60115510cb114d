"""A control group around each zygote, if this user may create one: limits processes and memory, and shares the cores.

It supports version 1 (a folder per controller) and version 2 (one folder). A group is created below the group that this
program runs in. A group that belongs to a container manager or a service is left alone, unless it is delegated: on
version 2, its folder belongs to this user; on either version, CONTROL_GROUPS=nested is set in the environment.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "sys602-"
MOST_TASKS = 400  # processes and threads of one zygote and its job
MOST_MEMORY = 6 << 30
LIMITS = {
    "pids": {"pids.max": MOST_TASKS},
    "memory": {"memory.limit_in_bytes": MOST_MEMORY, "memory.max": MOST_MEMORY, "memory.swap.max": 0},
    "cpu": {},  # a separate group is enough to get an equal share
}


class ControlGroup:
    """The folders of one group, in every hierarchy that allows it; having none is not an error."""

    def __init__(self, mounts: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> None:
        self.folders: list[Path] = []
        name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        for parent, controllers in _parents(mounts, own):
            _sweep(parent)
            with suppress(OSError):
                folder = parent / name
                folder.mkdir()
                self.folders.append(folder)
                for controller in controllers:
                    _limit(folder, controller)

    def wrapper(self) -> list[str]:
        """A command prefix that starts a command as a member of the group."""
        if not self.folders:
            return []
        joins = "".join(f"echo $$ > '{folder}/cgroup.procs' 2>/dev/null; " for folder in self.folders)
        return ["/bin/sh", "-c", f'{joins}exec "$@"', "sh"]

    @property
    def limits(self) -> list[str]:
        """The names of the active controllers, used in reports about a machine."""
        return sorted({c for c in LIMITS for f in self.folders if any((f / name).exists() for name in LIMITS[c])})

    def close(self) -> None:
        """Remove the folders; the members must have ended."""
        for folder in self.folders:
            with suppress(OSError):
                if (folder / "cgroup.kill").exists():
                    (folder / "cgroup.kill").write_text("1")
            for _ in range(50):  # killed members take a moment to disappear
                with suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.02)


def _sweep(parent: Path) -> None:
    """Remove the empty groups of programs that were killed before they could clean up."""
    for folder in parent.glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).split("-")[0]
        if not Path("/proc", owner).exists():
            with suppress(OSError):
                folder.rmdir()


def _parents(mounts: Path, own: Path) -> list[tuple[Path, list[str]]]:
    """The folders in which a group may be created, each with the controllers that the group will have."""
    found = []
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers:
                parent = mounts / controllers / path.lstrip("/")
                wanted = [name for name in controllers.split(",") if name in LIMITS]
                ours = path == "/" or os.environ.get("CONTROL_GROUPS") == "nested"
            else:
                parent = mounts / path.lstrip("/")
                wanted = _enabled(parent)
                ours = path == "/" or _is_delegated(parent) or os.environ.get("CONTROL_GROUPS") == "nested"
            if wanted and ours and os.access(parent, os.W_OK):
                found.append((parent, wanted))
    return found


def _is_delegated(parent: Path) -> bool:
    return os.getuid() != 0 and parent.exists() and parent.stat().st_uid == os.getuid()


def _enabled(parent: Path) -> list[str]:
    """The controllers that version 2 passes on to groups below `parent`, after trying to enable the missing ones."""
    try:
        there = (parent / "cgroup.controllers").read_text().split()
        for name in [name for name in LIMITS if name in there]:
            with suppress(OSError):  # fails while the parent itself has members
                (parent / "cgroup.subtree_control").write_text(f"+{name}")
        return [name for name in (parent / "cgroup.subtree_control").read_text().split() if name in LIMITS]
    except OSError:
        return []


def _limit(folder: Path, controller: str) -> None:
    for name, value in LIMITS[controller].items():
        with suppress(OSError):
            if (folder / name).exists():
                (folder / name).write_text(str(value))
