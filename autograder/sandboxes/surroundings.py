"""The environment of a program in any sandbox: readable files, variables, host names."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

import shardlab

from autograder.jobs import places

HOSTS = Path(__file__).resolve().with_name("hosts")  # contains only the loopback
_SYSTEM = tuple(Path("/", name) for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"))


def mounts() -> dict[str, bool]:
    """{path: whether it is shown read-only}, parents first; other paths are covered by an empty folder.

    Shown are only the system, Python with its packages, shardlab and the jobs. The rest of the course (solutions,
    checks, submitted answers, an installed shardlab's pages with the packed answers) is covered if it is below a shown
    path, such as in /usr/src.
    """
    older = [str(path) for path in _SYSTEM if path.is_dir() and not path.is_symlink()]
    linker = [path for path in ("/etc/ld.so.cache",) if os.path.exists(path)]
    wanted = [*older, *linker, *places.wanted()]
    hidden = [_course(), *filter(os.path.isdir, [places.pages()])]
    covered = [path for path in hidden if any(places.is_below(path, shown) for shown in wanted)]
    shown = places.outermost(wanted, covered)
    return {path: path in shown for path in sorted([*shown, *covered])}


def _course() -> str:
    """The course's folder, or the autograder's own folder if pip has installed it among other packages."""
    folder = Path(__file__).resolve().parents[1]
    return str(folder.parent if (folder.parent / "nbgrader_config.py").exists() else folder)


def links() -> dict[str, str]:
    """{link: target}: /bin, /lib and similar links into /usr, and the links that lead to this Python."""
    system = {str(path): os.readlink(path) for path in _SYSTEM if path.is_symlink()}
    seen = [*system, *mounts()]
    others = {link: to for link, to in places.links().items() if not any(places.is_below(link, path) for path in seen)}
    return system | others


def environment() -> dict[str, str]:
    """The only variables that a sandbox gets: those that Python needs."""
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
