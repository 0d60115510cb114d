"""Linux accounts of a class. Each student is a separate user of the machine, with private files and processes.

A recreated container has no accounts, but its volume of home folders persists. So a student's user id is read from the
owner of their home folder.
"""

from __future__ import annotations

import pwd
import re
import subprocess
from pathlib import Path

NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
FIRST, LAST = 2000, 60_000  # user ids of students; the others belong to the system and the instructor


def account(name: str, homes: Path) -> pwd.struct_passwd:
    """Return a student's account; create it if needed, with a home in `homes` that no other student can read.

    Raises ValueError for a name that Linux would not accept, or that belongs to the system.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be an account name: use a letter, then at most 30 of a-z, 0-9, _ and -")
    home = homes / name
    if not has_account(name):
        number = home.stat().st_uid if home.exists() else _free_number(homes)
        command = ["useradd", "--uid", str(number), "--home-dir", str(home), "--create-home", "--shell", "/bin/bash"]
        subprocess.run([*command, name], check=True, capture_output=True, text=True)
        home.chmod(0o700)
    found = pwd.getpwnam(name)
    if not FIRST <= found.pw_uid < LAST or Path(found.pw_dir) != home:
        raise ValueError(f"{name!r} is a system account: choose another name")
    return found


def has_account(name: str) -> bool:
    """Return whether this machine has a user of that name."""
    return any(one.pw_name == name for one in pwd.getpwall())


def _free_number(homes: Path) -> int:
    taken = [one.pw_uid for one in pwd.getpwall()] + [path.stat().st_uid for path in homes.iterdir()]
    return max([FIRST - 1, *(number for number in taken if FIRST <= number < LAST)]) + 1
