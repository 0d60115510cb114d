"""The paths of Python, its packages, shardlab and these jobs, which a sandbox shows under the same names.

Every path is free of symbolic links, because masking a folder under one name would not mask it under another.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import shardlab

SYSTEM = "/usr"
PARTS = ("bin", "lib", sys.platlibdir, "pyvenv.cfg")  # of a prefix, which may be a home folder or the course's folder
MOST_LINKS = 40  # as many as Linux follows


def program() -> str:
    """The Python that a sandbox starts: this one, with no links except a virtual environment's own."""
    if sys.prefix == sys.base_prefix:
        return os.path.realpath(sys.executable)
    return os.path.join(os.path.realpath(sys.prefix), "bin", os.path.basename(sys.executable))


def ours() -> list[str]:
    """The paths of shardlab and of the parts of the autograder that a sandbox needs."""
    jobs = Path(__file__).resolve().parent
    return [str(Path(str(shardlab.__file__)).resolve().parent), str(jobs.parent / "__init__.py"), str(jobs)]


def pages() -> str:
    """The folder of the course's pages, hints and packed answers in an installed shardlab; it may not exist."""
    return str(Path(str(shardlab.__file__)).resolve().parent / "pages")


def packages() -> list[str]:
    """Every folder of installed packages that this Python imports from: its own, the user's, those in PYTHONPATH."""
    absolute = filter(os.path.isabs, sys.path)
    return list(dict.fromkeys(os.path.realpath(path) for path in absolute if _holds_packages(path)))


def _holds_packages(folder: str) -> bool:
    return os.path.isdir(folder) and any(name.endswith(".dist-info") for name in os.listdir(folder))


def wanted() -> list[str]:
    """Every file and folder that a sandbox shows read-only: system, Python, packages, shardlab, the jobs."""
    return [SYSTEM, *_pythons(), *packages(), *ours()]


@functools.cache
def shown() -> Sequence[str]:
    """Like `wanted`, without paths below others. Computed once, in the program that forks jobs."""
    return tuple(outermost(wanted()))


def _pythons() -> list[str]:
    """The parts that a Python needs from each of its prefixes."""
    prefixes = dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
    parts = (os.path.join(prefix, part) for prefix in prefixes for part in PARTS)
    return [os.path.realpath(path) for path in (*parts, os.path.dirname(os.__file__)) if os.path.exists(path)]


def outermost(paths: Iterable[str], covered: Sequence[str] = ()) -> list[str]:
    """The paths that are not below another one, or whose nearest parent is `covered`, which hides its contents."""
    known = sorted({*paths, *covered})
    above = {path: [other for other in known if is_below(path, other)] for path in known}
    return [path for path in known if path not in covered and (not above[path] or above[path][-1] in covered)]


def is_below(path: str, folder: str) -> bool:
    """Whether a path is inside a folder; the folder itself is not."""
    return path != folder and path.startswith(folder.rstrip("/") + "/")


def links() -> dict[str, str]:
    """{link: target} for the links that lead to this Python, outermost first."""
    found: dict[str, str] = {}
    base = getattr(sys, "_base_executable", sys.executable)  # the name in a virtual environment's pyvenv.cfg
    for path in (program(), base, sys.base_prefix, sys.base_exec_prefix):
        found |= links_on(path)
    return found


def links_on(path: str) -> dict[str, str]:
    """The links along one path."""
    found: dict[str, str] = {}
    here, steps, followed = "/", path.strip("/").split("/"), 0
    while steps and followed < MOST_LINKS:
        step = os.path.normpath(os.path.join(here, steps.pop(0)))
        if os.path.islink(step):
            followed += 1
            found[step] = os.readlink(step)
            here = "/" if found[step].startswith("/") else here
            steps = found[step].strip("/").split("/") + steps
        else:
            here = step
    return found
