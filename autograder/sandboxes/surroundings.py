"""What a program in a sandbox finds around it, whatever shuts it in: files to read, variables, names of hosts."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

import shardlab

from autograder.jobs import places

HOSTS = Path(__file__).resolve().with_name("hosts")  # with the loopback alone
_SYSTEM = tuple(Path("/", name) for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"))


def mounts() -> dict[str, bool]:
    """{path: whether it is shown, for reading alone}, parents first; the others are covered by an empty folder.

    Shown: system, Python with its packages, shardlab, the jobs; nothing else of the host. What else the course holds
    (solutions, checks, answers handed in, an installed shardlab's pages with the packed answers) is covered where it is
    below one of these, as in /usr/src.
    """
    older = [str(path) for path in _SYSTEM if path.is_dir() and not path.is_symlink()]
    linker = [path for path in ("/etc/ld.so.cache",) if os.path.exists(path)]
    wanted = [*older, *linker, *places.wanted()]
    hidden = [_course(), *filter(os.path.isdir, [places.pages()])]
    covered = [path for path in hidden if any(places.is_below(path, shown) for shown in wanted)]
    shown = places.outermost(wanted, covered)
    return {path: path in shown for path in sorted([*shown, *covered])}


def _course() -> str:
    """The course's folder, or the autograder's own where pip has installed it beside other packages."""
    folder = Path(__file__).resolve().parents[1]
    return str(folder.parent if (folder.parent / "nbgrader_config.py").exists() else folder)


def links() -> dict[str, str]:
    """{link: where it leads}: /bin, /lib and their like, which lead into /usr, and links on the way to this Python."""
    system = {str(path): os.readlink(path) for path in _SYSTEM if path.is_symlink()}
    seen = [*system, *mounts()]
    others = {link: to for link, to in places.links().items() if not any(places.is_below(link, path) for path in seen)}
    return system | others


def environment() -> dict[str, str]:
    """No variable of ours reaches the sandbox but what Python needs."""
    paths = [Path(str(shardlab.__file__)).resolve().parents[1], Path(__file__).resolve().parents[2]]
    found_anyway = set(map(os.path.realpath, site.getsitepackages()))
    elsewhere = [path for path in places.packages() if path not in found_anyway]
    return {
        "PATH": f"{os.path.dirname(places.program())}:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join([*map(str, paths), *elsewhere]),
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "MPLBACKEND": "Agg",
    }
