"""Confine a rank inside a container, where namespaces are unavailable, with only landlock and a system-call filter.

All ranks of a job share the container's user, processes and files. Landlock gives each rank a private folder, whose
name the others cannot learn, and lets it read only the files that the sandbox shows.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from shardlab.ranks.libc import libc

from autograder.jobs import confine, places

MOST_RANKS = 16  # a container has this many folders for ranks, each a separate file system
FOLDERS = "/ranks"
SYSTEM_FILES = ("/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/hosts")
HARMLESS_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_CREATE, _ADD, _RESTRICT, _BENEATH = 444, 445, 446, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
# remove folders and files, make folders, files and links, move between folders
_MAKE = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 13
_NUM_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # rights on files that each version of landlock knows; 16 from version 5 on


def holds() -> bool:
    """Try it once as a container's first process: no privileges, a confined rank, and a way to end all other ones."""
    from autograder.jobs import syscalls

    if os.getpid() != 1 or os.getuid() == 0 or os.access("/", os.W_OK) or confine.loopback_bytes() < 0:
        return False
    if (child := os.fork()) == 0:
        try:
            settle_rank(0, [])
            shut_in = confine.separate() and syscalls.refuse(network=True, contained=True) and not _sees("/proc/1/stat")
        except OSError:
            shut_in = False
        os._exit(0 if shut_in else 1)
    return os.waitpid(child, 0)[1] == 0 and clean_up()


def _sees(path: str) -> bool:
    with suppress(OSError), open(path):
        return True
    return False


def settle_rank(rank: int, masked: Sequence[str], *, writes: bool = True) -> None:
    """In a new rank with one thread: allow a private folder and the files that the sandbox shows, and no other file.

    Without `writes`, the rank may not write to the folder.
    """
    if rank >= MOST_RANKS:
        raise OSError(f"a container has folders for only {MOST_RANKS} ranks")
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, ranks are killed first
    own = f"{FOLDERS}/{rank}/{secrets.token_hex(16)}"  # secret: a known file's times and size could carry information
    os.mkdir(own, 0o700)
    os.chdir(own)
    os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = own
    version = _landlock(_CREATE, None, 0, 1)
    known = (1 << _NUM_RIGHTS.get(version, 16)) - 1
    rules = _landlock(_CREATE, struct.pack("<Q", known), 8, 0)
    if version < 1 or rules < 0:
        raise OSError("this kernel has no landlock")
    for path, rights in _rules(own if writes else None, masked):
        with suppress(FileNotFoundError):
            _allow(rules, path, rights & known)
    if _landlock(_RESTRICT, rules, 0) != 0:
        raise OSError("a rank cannot be confined")
    os.close(rules)


def _rules(own: str | None, masked: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield each path and a rank's rights below it; `own` is the folder that it may write to, if any."""
    if own is not None:
        yield own, _READ_FILE | _WRITE_FILE | _READ_DIR | _TRUNCATE | _MAKE
    for path in HARMLESS_DEVICES:
        yield path, _READ_FILE | _WRITE_FILE
    for name in ("fd", *confine.SEEN_OF_ITSELF):
        yield f"/proc/self/{name}", _READ_FILE | _READ_DIR
    hidden = [confine.file_of(name).resolve() for name in masked]
    for path in (*places.shown(), *SYSTEM_FILES):
        for part in _without(Path(path).resolve(), hidden):
            yield str(part), _READ
        yield path, _READ_DIR


def _without(root: Path, hidden: Sequence[Path]) -> Iterator[Path]:
    """Yield the largest parts of a folder that contain neither source nor byte code of hidden modules."""
    if root in hidden:
        return
    if not any(root in path.parents for path in hidden):
        yield root
        return
    bare = any(path.parent == root for path in hidden)
    for child in root.iterdir():
        if not (bare and child.name == "__pycache__"):
            yield from _without(child, hidden)


def _allow(rules: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):
            rights &= _OF_FILES
        if rights and _landlock(_ADD, rules, _BENEATH, struct.pack("<Qi", rights, descriptor), 0) != 0:
            raise OSError(f"landlock accepts no rule for {path}")
    finally:
        os.close(descriptor)


def _landlock(call: int, *arguments: bytes | int | None) -> int:
    """Make one of landlock's system calls, which have no functions in the C library."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return libc().syscall(call, *words)


def clean_up() -> bool:
    """As a container's first process: end all others and empty the folders; returns False if anything is left."""
    assert os.getpid() == 1, "this would end every process on the machine"
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # all at once, so that no process escapes by forking
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    left = [entry.path for folder in os.scandir(FOLDERS) for entry in os.scandir(folder.path)]
    if left:
        subprocess.run(["/bin/rm", "-rf", "--", *left], stderr=subprocess.DEVNULL, check=False)
    return not any(os.listdir(folder.path) for folder in os.scandir(FOLDERS))
