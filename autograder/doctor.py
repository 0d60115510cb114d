"""What `shardlab doctor` says about grading; found through the entry point group `shardlab.doctor`."""

from __future__ import annotations

import shutil
import sys

from shardlab.commands.doctor import NOTE, OK, Finding

from autograder import containers
from autograder.sandbox import LEVELS, level, missing


def sandbox() -> Finding:
    """How well submissions can be confined here: a note, because a student needs no sandbox."""
    found = level()
    value = f"level {found}: {LEVELS[found]}"
    if found == 2:
        return Finding("sandbox", f"{value} ({' '.join(containers.found() or ())})", OK)
    if found == 3:
        return Finding("sandbox", value, OK)
    return Finding("sandbox", value, NOTE, f"to grade, {_remedy()}")


def _remedy() -> str:
    if sys.platform != "linux":
        return "use a Linux machine"
    if shutil.which("bwrap") is None:
        return "install bubblewrap (on Debian and Ubuntu: apt install bubblewrap)"
    return (
        "leave the container, or let this user make user namespaces (sysctl user.max_user_namespaces), or use podman "
        f"or docker ({missing()})"
    )
