"""Where Python, its packages, shardlab and these jobs lie: what a sandbox shows, by names that hold inside it too.

Every path is a real one, without a link in it: a folder that is shown under two names could be masked under one alone.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import shardlab

SYSTEM = "/usr"
PARTS = ("bin", "lib", sys.platlibdir, "pyvenv.cfg")  # of a prefix: it may be a home folder, or the course's own
MOST_LINKS = 40  # as many as Linux follows


def program() -> str:
    """The Python that a sandbox starts: this one, without links but a virtual environment's own."""
    if sys.prefix == sys.base_prefix:
        return os.path.realpath(sys.executable)
    return os.path.join(os.path.realpath(sys.prefix), "bin", os.path.basename(sys.executable))


def ours() -> list[str]:
    """Where shardlab lies, and what is needed of the autograder."""
    jobs = Path(__file__).resolve().parent
    return [str(Path(str(shardlab.__file__)).resolve().parent), str(jobs.parent / "__init__.py"), str(jobs)]


def pages() -> str:
    """Where an installed shardlab has the course's pages, with hints and packed answers; the folder may not exist."""
    return str(Path(str(shardlab.__file__)).resolve().parent / "pages")


def packages() -> list[str]:
    """Every folder of installed packages that this Python imports from: its own, a user's, one of PYTHONPATH."""
    absolute = filter(os.path.isabs, sys.path)
    return list(dict.fromkeys(os.path.realpath(path) for path in absolute if _holds_packages(path)))


def _holds_packages(folder: str) -> bool:
    return os.path.isdir(folder) and any(name.endswith(".dist-info") for name in os.listdir(folder))


def wanted() -> list[str]:
    """Every file and folder that a sandbox shows, for reading alone: system, Python, packages, shardlab, the jobs."""
    return [SYSTEM, *_pythons(), *packages(), *ours()]


@functools.cache
def shown() -> Sequence[str]:
    """The same, none below another: parents first. Looked up once, by the program that jobs are forked from."""
    return tuple(outermost(wanted()))


def _pythons() -> list[str]:
    """What a Python needs of each of its prefixes."""
    prefixes = dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
    parts = (os.path.join(prefix, part) for prefix in prefixes for part in PARTS)
    return [os.path.realpath(path) for path in (*parts, os.path.dirname(os.__file__)) if os.path.exists(path)]


def outermost(paths: Iterable[str], covered: Sequence[str] = ()) -> list[str]:
    """The paths that lie below no other one, or first below a `covered` folder, in which nothing else is seen."""
    known = sorted({*paths, *covered})
    above = {path: [other for other in known if is_below(path, other)] for path in known}
    return [path for path in known if path not in covered and (not above[path] or above[path][-1] in covered)]


def is_below(path: str, folder: str) -> bool:
    """Whether a path lies in a folder; the folder itself does not."""
    return path != folder and path.startswith(folder.rstrip("/") + "/")


def links() -> dict[str, str]:
    """{link: where it leads} for the links that lead to this Python, outermost first."""
    found: dict[str, str] = {}
    base = getattr(sys, "_base_executable", sys.executable)  # as a virtual environment's file names its Python
    for path in (program(), base, sys.base_prefix, sys.base_exec_prefix):
        found |= links_on(path)
    return found


def links_on(path: str) -> dict[str, str]:
    """The links on the way along one path."""
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
