"""The trusted side of level 3: bubblewrap's command line, and the reason if it does not work."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys

from autograder.jobs import places
from autograder.sandboxes.surroundings import HOSTS, environment, links, mounts

START_LIMIT = 60.0  # seconds for a probe
PROBE = "import sys; from autograder.jobs import confine; sys.exit(0 if confine.holds() else 1)"


def command() -> list[str]:
    """The command prefix: it shows only system files, Python, shardlab and the jobs, all of them read-only."""
    covered = [path for path, is_shown in mounts().items() if not is_shown]
    return [
        *(shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
        *(word for name, value in environment().items() for word in ("--setenv", name, value)),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        *(word for link, target in links().items() for word in ("--symlink", target, link)),
        *(word for path, is_shown in mounts().items() for word in _mounted(path, is_shown)),
        *("--ro-bind", str(HOSTS), "/etc/hosts"),
        # otherwise later jobs could see what an earlier job wrote there
        *(word for path in (*covered, "/dev", "/") for word in ("--remount-ro", path)),
        *("--chdir", "/tmp", "--"),
    ]


def _mounted(path: str, is_shown: bool) -> tuple[str, ...]:
    return ("--ro-bind", path, path) if is_shown else ("--tmpfs", path)


@functools.cache
def problem() -> str | None:
    """The error when a job is confined here, determined by trying it once; None if it works."""
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    try:
        words = [*command(), places.program(), "-c", PROBE]
        answer = subprocess.run(words, capture_output=True, timeout=START_LIMIT, env=environment(), check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = answer.stderr.decode(errors="replace").strip().rsplit("\n", 1)[-1]
    return None if answer.returncode == 0 else said or "jobs cannot create namespaces inside bubblewrap"
