"""Run commands as a user who is not root, with all privileges dropped."""

import os
import shlex
import sys
from pathlib import Path

USER = 60_577 if os.getuid() == 0 else os.getuid()


def closed_folder(path: Path) -> Path | None:
    """Return the topmost folder of `path` that other users may not enter."""
    return next((one for one in reversed([path, *path.parents]) if not one.stat().st_mode & 0o001), None)


def as_the_user(command: list[str], user: int = USER, group: int | None = None) -> list[str]:
    """Wrap a command to run as the user; if Python is in root's own folder, mount it where the user can see it."""
    if os.getuid() != 0:
        return command
    group = user if group is None else group
    drop = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]
    drop += ["--bounding-set=-all", "--inh-caps=-all"]
    pythons = sorted({Path(path).resolve() for path in (sys.prefix, sys.base_prefix)})
    hidden = {path: top for path in pythons if (top := closed_folder(path)) is not None}
    steps = [["mount", "-t", "tmpfs", "tmpfs", "/mnt"]] if hidden else []
    for path in hidden:
        steps += [["mkdir", "-p", f"/mnt{path}"], ["mount", "--bind", str(path), f"/mnt{path}"]]
    steps += [["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(top)] for top in sorted(set(hidden.values()))]
    for path in hidden:
        steps += [["mkdir", "-p", str(path)], ["mount", "--bind", f"/mnt{path}", str(path)]]
    script = " && ".join(map(shlex.join, [*steps, ["exec", *drop, *command]]))
    return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script]
