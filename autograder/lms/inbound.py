"""Read untrusted submissions from the exchange, whose files may change at any moment and may be traps.

Every folder and file is opened once, without following links, and all checks use the opened descriptor: its owner, hard
links, size, and the kernel's time of the last change, which no student can set.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from autograder.reading.names import is_named_after, printable
from autograder.reading.notebook_file import MAX_BYTES

MOST_ENTRIES = 1000  # files and folders of one submission
MOST_BYTES = 100_000_000  # over all its files, the limit of nbgrader's own submit
MOST_DEPTH = 12
SECRET = re.compile(r"[0-9a-f]{128}")
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a named pipe must not block


class Refused(ValueError):
    """A folder of the exchange that is not collected; the message is a full sentence."""


@dataclass(frozen=True)
class Submission:
    """A submission: the notebook's name and bytes, when it was written, and the secret that names its feedback page."""

    file: str
    data: bytes
    time: datetime
    secret: str


@contextmanager
def opened(path: str | Path, *, within: int | None = None, flags: int = FOLDER) -> Iterator[int]:
    """Open a folder or file as a descriptor. Raises Refused when it is a link or cannot be opened."""
    try:
        number = os.open(path, flags, dir_fd=within)
    except OSError as error:
        raise Refused(f"{printable(str(path))} is a link, or cannot be read ({error.strerror}).") from None
    try:
        yield number
    finally:
        os.close(number)


def read(name: str, inbound: int, week: str, owner: int) -> Submission:
    """Read the submission in a folder of `inbound`, an open descriptor. Raises Refused with the reason."""
    with opened(name, within=inbound) as folder:
        facts = os.fstat(folder)
        if facts.st_uid != owner:
            raise Refused("Its owner changed while it was read.")
        _see_that_it_is_plain(folder, owner, [0, 0], 0)
        file = _notebook(os.listdir(folder), week)
        data, written = _read(file, folder, owner, MAX_BYTES)
        secret = _secret(folder, owner)
    time = datetime.fromtimestamp(max(written, facts.st_ctime), UTC)
    return Submission(file, data, time, secret)


def _see_that_it_is_plain(folder: int, owner: int, seen: list[int], depth: int) -> None:
    """Refuse links, other people's files, and too many or too large files in a tree. seen: [entries, bytes]."""
    if depth > MOST_DEPTH:
        raise Refused(f"Its folders are nested more than {MOST_DEPTH} deep.")
    with os.scandir(folder) as entries:
        for entry in entries:
            facts = entry.stat(follow_symlinks=False)
            _refuse_odd(entry.name, facts, owner)
            seen[0] += 1
            seen[1] += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
            if seen[0] > MOST_ENTRIES:
                raise Refused(f"It contains more than {MOST_ENTRIES:,} files and folders.")
            if seen[1] > MOST_BYTES:
                raise Refused(f"Its files are larger than {MOST_BYTES / 1e6:.0f} MB in total.")
            if stat.S_ISDIR(facts.st_mode):
                with opened(entry.name, within=folder) as inner:
                    _refuse_odd(entry.name, os.fstat(inner), owner)
                    _see_that_it_is_plain(inner, owner, seen, depth + 1)


def _refuse_odd(name: str, facts: os.stat_result, owner: int) -> None:
    shown = printable(name)[:60]
    if stat.S_ISLNK(facts.st_mode):
        raise Refused(f"It contains a symbolic link, {shown}: it was not followed.")
    if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
        raise Refused(f"{shown} is neither a file nor a folder.")
    if facts.st_uid != owner:
        raise Refused(f"{shown} belongs to somebody else.")
    if stat.S_ISREG(facts.st_mode) and facts.st_nlink != 1:
        raise Refused(f"{shown} has a second name elsewhere (a hard link).")


def _notebook(names: list[str], week: str) -> str:
    """Return the week's notebook among the files of a submission. Raises Refused unless exactly one qualifies."""
    if f"{week}.ipynb" in names:
        return f"{week}.ipynb"
    notebooks = sorted(name for name in names if name.lower().endswith(".ipynb"))
    fitting = [name for name in notebooks if is_named_after(name, week)] or notebooks
    if len(fitting) != 1:
        raise Refused(f"It has {len(fitting) or 'no'} notebooks that could be {week}.ipynb: none was taken.")
    return fitting[0]


def _read(name: str, folder: int, owner: int, most: int) -> tuple[bytes, float]:
    """Return a file's bytes and time of last change. Raises Refused unless it is a regular file of this student."""
    with opened(name, within=folder, flags=FILE) as file:
        before = os.fstat(file)
        _refuse_odd(name, before, owner)
        if not stat.S_ISREG(before.st_mode):
            raise Refused(f"{printable(name)[:60]} is not a regular file.")
        with os.fdopen(os.dup(file), "rb") as stream:
            data = stream.read(most + 1)
        after = os.fstat(file)
    if len(data) > most:
        raise Refused(f"{printable(name)[:60]} is larger than {most / 1e6:g} MB: clear the outputs.")
    if (before.st_ctime_ns, before.st_size, before.st_nlink) != (after.st_ctime_ns, after.st_size, after.st_nlink):
        raise Refused("It changed while it was read: collect again.")
    return data, after.st_ctime


def _secret(folder: int, owner: int) -> str:
    """Return the secret that nbgrader's submit wrote; empty if it is missing or malformed."""
    try:
        data, _ = _read("submission_secret.txt", folder, owner, 1000)
    except Refused:
        return ""
    text = data.decode("ascii", "replace").strip()
    return text if SECRET.fullmatch(text) else ""
