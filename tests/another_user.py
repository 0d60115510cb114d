"""A command of a user who is not root, with every privilege dropped."""

import os
import shlex
import sys
from pathlib import Path

USER = 60_577 if os.getuid() == 0 else os.getuid()


def closed_folder(path: Path) -> Path | None:
    """The topmost folder above `path`, or `path`, that other users may not enter."""
    return next((one for one in reversed([path, *path.parents]) if not one.stat().st_mode & 0o001), None)


def as_the_user(command: list[str], user: int = USER, group: int | None = None) -> list[str]:
    """A command that becomes the user; a Python below root's own folder is shown to it, in its own view of files."""
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
