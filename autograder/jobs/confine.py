"""Confine one job: private network, processes and shared memory; limits; no access to other jobs.

Runs in the job's first process, before any student code. Linux only; each step returns whether it succeeded.
"""

from __future__ import annotations

import array
import ctypes
import os
import resource
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import shardlab
from shardlab.ranks.libc import libc

from autograder.jobs import places

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_NO_NEW_PRIVILEGES, _DUMPABLE = 38, 4
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_PRIVATE, _RECURSIVE, _BIND, _REMOUNT, _READ_ONLY = 1 << 18, 1 << 14, 1 << 12, 1 << 5, 1 << 0
SEEN_OF_ITSELF = ("maps", "status", "stat", "statm", "cmdline")  # visible to a rank under /proc/self, along with fd
MOST_SIGNALS = 64  # pending signals per rank: few enough that all ranks together stay below their user's limit
_NO_PROGRAMS, _DETACH = 0x2 | 0x4, 2  # no set-user-id, no devices; unmount even what is in use
_SCOPED_LANDLOCK = 6  # the first version of landlock that restricts signals and abstract sockets


def enter_namespaces() -> bool:
    """Leave the host's network, processes, IPC and mounts; returns False if the system does not allow it.

    The caller forks next. Its child becomes process 1 of the new namespace; when it ends, all processes there end.
    """
    if sys.platform != "linux":
        return False
    return _unshare(NEWUSER | NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET)


def holds() -> bool:
    """Try everything once in a throwaway process: a job's namespaces, a tap, a confined rank."""
    from autograder.jobs import syscalls, wire

    if not enter_namespaces():
        return False
    if (child := os.fork()) == 0:
        try:
            settle([])
            wire.Tap().close()
            shut_in = settle_rank() and separate() and syscalls.refuse(network=True)
        except OSError:
            shut_in = False
        os._exit(0 if shut_in else 1)
    return os.waitpid(child, 0)[1] == 0


def _unshare(kinds: int) -> bool:
    """Enter new namespaces, keeping the user and group ids; the process must have only one thread."""
    user, group = os.getuid(), os.getgid()
    if libc().unshare(kinds) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return True


def settle(masked: Sequence[str]) -> None:
    """In process 1 of the new namespaces: hide masked modules, mount empty private folders, bring the loopback up."""
    _mount(None, "/", _PRIVATE | _RECURSIVE)
    for path in map(file_of, masked):
        if path.is_dir():
            _mount("tmpfs", str(path), _READ_ONLY, "size=4k")
            continue
        _mount("/dev/null", str(path), _BIND)
        if (cache := path.parent / "__pycache__").is_dir():
            _mount("tmpfs", str(cache), _READ_ONLY, "size=4k")  # read-only, as all ranks see it
    _empty_folders()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = bytearray(struct.pack("16sh22x", b"lo", 0))
        flags = _ioctl(sock, _SIOCGIFFLAGS, request)
        _ioctl(sock, _SIOCSIFFLAGS, bytearray(struct.pack("16sh22x", b"lo", flags | _IFF_UP)))


def settle_rank() -> bool:
    """In a new rank with one thread: private folders, IPC and keys, and a /proc that shows only itself.

    Returns False, without changing anything, if the system does not allow it.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, ranks are killed first
    if not _unshare(NEWUSER | NEWNS | NEWUTS | NEWIPC):
        return False
    _lower(resource.RLIMIT_SIGPENDING, MOST_SIGNALS)
    _mount(None, "/", _PRIVATE | _RECURSIVE)
    _empty_folders()
    _mount("tmpfs", "/dev/pts", _READ_ONLY, "size=4k")
    os.mkdir("/tmp/self")
    _mount("/proc/self", "/tmp/self", _BIND)
    _mount("tmpfs", "/proc", 0, "size=4k")
    os.mkdir("/proc/self")
    os.mkdir("/proc/self/fd")
    for name in SEEN_OF_ITSELF:
        Path("/proc/self", name).touch()
    for name in ("fd", *SEEN_OF_ITSELF):
        _mount(f"/tmp/self/{name}", f"/proc/self/{name}", _BIND)
    _mount(None, "/proc", _READ_ONLY | _REMOUNT | _BIND)
    libc().umount2(b"/tmp/self", _DETACH)
    os.rmdir("/tmp/self")
    return True


def write_no_files() -> None:
    """In a rank whose memory is measured: make its private folders read-only, because their files would not count."""
    for folder in ("/tmp", "/dev/shm"):
        _mount(None, folder, _READ_ONLY | _REMOUNT | _BIND)


def keep_few_files() -> None:
    """In a rank whose memory is measured: limit files to the size of a hang report, and all pipes to 4 MB."""
    _lower(resource.RLIMIT_FSIZE, 64 << 10)
    _lower(resource.RLIMIT_NOFILE, 128)


def _empty_folders() -> None:
    """Mount empty folders over /tmp and /dev/shm, then mount again the paths below them that the sandbox shows."""
    shown = places.shown()
    for folder in ("/tmp", "/dev/shm"):
        _empty_folder(folder, [path for path in shown if places.is_below(path, folder)])
    os.chdir("/tmp")


def _empty_folder(folder: str, shown: Sequence[str]) -> None:
    kept = {path: (os.open(path, os.O_PATH), os.path.isdir(path)) for path in shown}
    _mount("tmpfs", folder, _NO_PROGRAMS, "size=64m,nr_inodes=8192")
    tops = {os.path.join(folder, os.path.relpath(path, folder).split(os.sep)[0]) for path in kept}.difference(kept)
    for top in tops:
        os.mkdir(top)
        _mount("tmpfs", top, _NO_PROGRAMS, "size=64k")
    for path, (descriptor, is_folder) in kept.items():
        os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
        if not is_folder:
            Path(path).touch()
        _mount(f"/proc/self/fd/{descriptor}", path, _BIND | _RECURSIVE)
        os.close(descriptor)
    for top in tops:  # so that nothing can be added next to the shown paths
        _mount(None, top, _READ_ONLY | _REMOUNT | _BIND)


def _mount(source: str | None, target: str, flags: int, options: str | None = None) -> None:
    """Mount a new in-memory file system (`tmpfs`) or bind-mount `source`; raises OSError if that fails."""
    kind = "tmpfs" if source == "tmpfs" else None
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    if libc().mount(*words, flags, None if options is None else options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)}: cannot mount", target)


def file_of(module: str) -> Path:
    """The path of one of shardlab's modules: costs/traffic.py for shardlab.costs.traffic; a folder for a package."""
    path = Path(str(shardlab.__file__)).parent.joinpath(*module.split(".")[1:])
    if (path / "__init__.py").is_file():
        return path
    if not path.with_suffix(".py").is_file():
        raise FileNotFoundError(f"a check hides {module}, but there is no {path.name}.py")
    return path.with_suffix(".py")


def _ioctl(sock: socket.socket, code: int, request: bytearray) -> int:
    import fcntl

    buffer = array.array("B", request)
    fcntl.ioctl(sock, code, buffer)
    return struct.unpack("16sh22x", buffer.tobytes())[1]


def limit(*, seconds: float, memory_bytes: int) -> None:
    """Set the limits of one rank: CPU time, address space, file size, open files, processes, no core dumps."""
    cpu = int(seconds) + 5
    for what, value in (
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 64 << 20),
        (resource.RLIMIT_NOFILE, 512),
        (resource.RLIMIT_NPROC, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        _lower(what, value)


def _lower(what: int, value: int) -> None:
    most = at_most(what, value)
    resource.setrlimit(what, (most, most))


def at_most(what: int, value: int) -> int:
    """`value`, capped at the hard limit of this process (`ulimit`)."""
    _, hard = resource.getrlimit(what)
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def keep_own_null() -> None:
    """In a rank: reopen standard input, because all processes that inherited an open file share its flags."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def separate() -> bool:
    """Drop all privileges and enter a private landlock domain, which prevents tracing the supervisor or other ranks."""
    if sys.platform != "linux":
        return False
    ours = libc()
    ours.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _drop_capabilities()
    version = ours.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    handled = struct.pack("<Q", 1 << 11)  # making block devices, which is forbidden already: a domain needs some rule
    if version >= _SCOPED_LANDLOCK:
        handled += struct.pack("<QQ", 0, 3)  # confine signals and abstract sockets to the domain
    rules = ours.syscall(_LANDLOCK_CREATE, ctypes.c_char_p(handled), ctypes.c_size_t(len(handled)), 0)
    if rules < 0:
        return False
    done = ours.syscall(_LANDLOCK_RESTRICT, rules, 0) == 0
    os.close(rules)
    return done


def _drop_capabilities() -> None:
    header = struct.pack("<II", 0x20080522, 0)
    libc().capset(ctypes.c_char_p(header), ctypes.c_char_p(bytes(24)))


def loopback_bytes() -> int:
    """Bytes that this network namespace's loopback has carried, including headers; processes in it cannot change it."""
    with open("/proc/self/net/dev") as file:
        for line in file:
            name, _, counters = line.partition(":")
            if name.strip() == "lo":
                return int(counters.split()[0])
    return 0
