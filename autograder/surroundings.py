"""What a program in a sandbox finds around it, whatever shuts it in: files to read, variables, names of hosts."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from pathlib import Path

import shardlab

import autograder
from autograder.jobs import contained

_SYSTEM = tuple(Path("/", name) for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"))


def shown() -> list[str]:
    """Files and folders that are shown for reading: system, Python, shardlab, the jobs. Nothing else of the host."""
    older = [str(path) for path in _SYSTEM if path.is_dir() and not path.is_symlink()]
    linker = [path for path in ("/etc/ld.so.cache",) if os.path.exists(path)]
    return [*contained.shown(), *older, *linker]


def system_links() -> dict[str, str]:
    """{link: where it leads} for /bin, /lib and their like, which are links into /usr on today's systems."""
    return {str(path): os.readlink(path) for path in _SYSTEM if path.is_symlink()}


def environment() -> dict[str, str]:
    """No variable of ours reaches the sandbox but what Python needs."""
    paths = [str(Path(str(shardlab.__file__)).parents[1]), str(Path(str(autograder.__file__)).parents[1])]
    return {
        "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(paths),
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "MPLBACKEND": "Agg",
    }


@functools.cache
def hosts_file() -> str:
    """A hosts file with the loopback alone, kept for the life of this process."""
    import atexit

    descriptor, path = tempfile.mkstemp(prefix="sys602-hosts-")
    with os.fdopen(descriptor, "w") as file:
        file.write("127.0.0.1 localhost\n")
    os.chmod(path, 0o644)
    atexit.register(lambda: os.path.exists(path) and os.unlink(path))
    return path
