"""Anonymous names for graders who must not know whom they grade; a student keeps the same one in every week.

An anonymous id is the start of an HMAC-SHA256 of the student's name, keyed with a file that only its owner can read.
Without the key, nobody can map ids to names, even with a class list. With the key, anyone can.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from autograder.reading import ingest

KEY_BYTES = 32
ID_LETTERS = 10  # 50 bits: with 1,000 students, a collision occurs in one of two billion courses


def read_key(path: Path) -> bytes:
    """Read the key of a course; create one, readable only by its owner, if it does not exist.

    Raises ValueError when others can read it or when it is not a key.
    """
    try:
        new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(new, "w") as file:
            file.write(secrets.token_hex(KEY_BYTES))
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "r") as file:
            mode, text = os.fstat(file.fileno()).st_mode, file.read(10 * KEY_BYTES)
        key = bytes.fromhex(text.strip())
    except (OSError, ValueError):
        raise ValueError(f"{path} is not a key file: move it away to create a new one (the ids will change)") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ValueError(f"{path} can be read by others: run `chmod 600 {path}`; if others had it, create a new one")
    if len(key) != KEY_BYTES:
        raise ValueError(f"{path} is not a key file: it must contain {KEY_BYTES} bytes in hexadecimal digits")
    return key


def anonymous_id(student: str, key: bytes) -> str:
    """Return the anonymous id of a student, such as `anon-7k2qf3m6xa`."""
    digest = hmac.new(key, student.encode(), hashlib.sha256).digest()
    return f"anon-{base64.b32encode(digest).decode().lower()[:ID_LETTERS]}"


def mapping(students: Iterable[str], key: bytes) -> dict[str, str]:
    """Return {student: anonymous id}. Raises ValueError if two students share one."""
    ids = {student: anonymous_id(student, key) for student in sorted(students)}
    if len(set(ids.values())) != len(ids):
        raise ValueError("two students share an anonymous id: make a new key")
    return ids


def copy_week(week: str, submitted: Path, target: Path, ids: dict[str, str]) -> list[str]:
    """Copy the notebooks of a week to `target` under anonymous ids; return sentences about those that failed.

    Only the notebook and its timestamp are copied. The text that students wrote in their cells is not changed.
    """
    problems = []
    for student, name in ids.items():
        source, folder = submitted / student / week, target / name / week
        try:
            found, _ = ingest.find_notebook(source, week, submitted)
            data = ingest.read_regular_file(found or source / f"{week}.ipynb", submitted)
        except ingest.NotReadable as reason:
            problems.append(f"{student} was not copied: {reason}.")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{week}.ipynb").write_bytes(data)
        stamp = source / "timestamp.txt"
        if stamp.is_file() and not stamp.is_symlink():
            shutil.copyfile(stamp, folder / "timestamp.txt")
    return problems
