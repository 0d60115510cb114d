"""nbgrader's exchange: create, repair and check its folders, so that no student can replace what others use.

ROOT                     mode 1777: students may write here, but only the owner of an entry can move it
ROOT/COURSE              0755, owned by the instructor; created in advance, or a student could create it
ROOT/COURSE/inbound      3733: students may write here but not list it, and can remove only their own entries
ROOT/COURSE/outbound     0755
ROOT/COURSE/feedback     0711: a page can be found only by its name, which only its student can compute
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from autograder.authoring.course import load_config

ROOT_MODE = 0o1777
MODES = {"": 0o755, "inbound": 0o3733, "outbound": 0o755, "feedback": 0o711}
REMEDY = "run `autograder exchange`"


def place_of(course_root: Path) -> tuple[Path, str]:
    """Return the folder of the exchange and the name of the course in it, from `nbgrader_config.py`."""
    config = load_config(course_root)
    return Path(config.Exchange.root), str(config.CourseDirectory.course_id)


def problems(root: Path, course: str, owner: int) -> list[str]:
    """List the reasons why a student could replace a folder of the exchange, or could not submit."""
    if not root.is_dir():
        return [f"{root} does not exist: {REMEDY}"]
    found = [*_above(root, owner), *_wrong(root, ROOT_MODE, {0, owner})]
    for name, mode in MODES.items():
        path = root / course / name
        found += _wrong(path, mode, {owner}) if os.path.lexists(path) else [f"{path} does not exist: {REMEDY}"]
    return found


def _above(root: Path, owner: int) -> Iterator[str]:
    """Check the parent folders: if others can write to one, they can replace everything below it."""
    for path in root.absolute().parents:
        facts = path.lstat()
        if facts.st_uid not in (0, owner):
            yield f"{path} belongs to {account(facts.st_uid)}, who can replace the exchange: choose another place"
        elif facts.st_mode & stat.S_IWOTH and not facts.st_mode & stat.S_ISVTX:
            yield f"anyone can replace the contents of {path}: set its sticky bit (chmod +t {path})"


def _wrong(path: Path, mode: int, owners: set[int]) -> Iterator[str]:
    facts = path.lstat()
    found = stat.S_IMODE(facts.st_mode)
    if not stat.S_ISDIR(facts.st_mode):
        yield f"{path} is a link or a file, not a folder: {REMEDY} as root"
    elif facts.st_uid not in owners:
        yield f"{path} belongs to {account(facts.st_uid)}: {REMEDY} as root, with --owner and the instructor's name"
    elif found != mode:
        yield f"{path} has mode {found:o}, not {mode:o}: {REMEDY}"


def account(number: int) -> str:
    """Return the name of a user; without an account (as at the instructor's desk), the name of their home folder."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        homes = Path(os.environ.get("HOMES", "/home"))
        names = [path.name for path in homes.iterdir() if path.lstat().st_uid == number] if homes.is_dir() else []
        return names[0] if len(names) == 1 else f"user {number}"


def make(root: Path, course: str, owner: int) -> list[str]:
    """Create or repair the exchange; return a sentence for each change. `owner` is the instructor's user id.

    As root, move folders of other owners aside. Raises ValueError for problems that only root can repair.
    """
    done = []
    if not root.is_dir():
        root.mkdir(parents=True)
        done.append(f"{root} was created.")
    done += _set(root, ROOT_MODE, None)
    for name, mode in MODES.items():
        path = root / course / name
        if os.path.lexists(path) and not _is_own(path, owner):
            done.append(_set_aside(path, root))
        if not os.path.lexists(path):
            path.mkdir(mode=0o700)
            done.append(f"{path} was created.")
        done += _set(path, mode, owner)
    return done


def _is_own(path: Path, owner: int) -> bool:
    facts = path.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == owner


def _set_aside(path: Path, root: Path) -> str:
    if os.geteuid() != 0:
        raise ValueError(f"{path} is not yours; only root can move it: {REMEDY} as root, with --owner and your name")
    number = next(n for n in range(1, 10_000) if not os.path.lexists(root / f".set-aside-{n}"))
    aside = root / f".set-aside-{number}"
    path.rename(aside)
    os.chown(aside, 0, 0, follow_symlinks=False)
    return f"{path} belonged to somebody else: it was moved to {aside}, where you can inspect it."


def _set(path: Path, mode: int, owner: int | None) -> list[str]:
    """Set a folder's owner and mode through a descriptor, because the path could be replaced in the meantime."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        facts = os.fstat(folder)
        if owner is not None and facts.st_uid != owner:
            os.fchown(folder, owner, -1)
        if stat.S_IMODE(facts.st_mode) == mode:
            return []
        os.fchmod(folder, mode)
    except PermissionError:
        raise ValueError(f"{path} needs mode {mode:o}, which only its owner can set: {REMEDY} as root") from None
    finally:
        os.close(folder)
    return [f"{path} now has mode {mode:o}."]
