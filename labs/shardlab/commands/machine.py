"""Checks of `shardlab doctor` that do not import torch and take no time.

A check is a function that takes no arguments and returns a `Finding`.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

OK, NOTE, PROBLEM = "ok", "note", "problem"
GIB = 2**30


@dataclass(frozen=True)
class Finding:
    """The result of one check: its name, what it found, how bad that is and how to fix it."""

    name: str
    value: str
    state: str = OK
    advice: str = ""


Check = Callable[[], Finding]


def python() -> Finding:
    """The running interpreter."""
    return Finding("Python", f"{platform.python_version()} at {sys.executable}")


def torch_version() -> Finding:
    """The installed torch version, read without importing torch."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return Finding("torch", "not installed", PROBLEM, "run `make setup`, or pip install -c constraints.txt -e .")
    if tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < (2, 13):
        return Finding("torch", version, PROBLEM, "the course needs torch 2.13 or newer: run `make setup` again")
    return Finding("torch", version)


def cores() -> Finding:
    """Cores available to this process."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count < 2:
        return Finding("cores", str(count), NOTE, "ranks take turns: results and bytes are right, times are not")
    return Finding("cores", str(count))


def memory() -> Finding:
    """Free memory, within the container's limit if there is one."""
    import psutil

    machine = psutil.virtual_memory()
    total, free = machine.total, machine.available
    limit, used = (_container_number(name) for name in ("memory.max", "memory.current"))
    if limit is not None and used is not None and limit < total:
        total, free = limit, min(free, limit - used)
    value = f"{free / GIB:.1f} of {total / GIB:.1f} GiB free"
    if free < GIB / 2:
        return Finding(
            "memory",
            value,
            PROBLEM,
            "four ranks need half a GiB: close other programs or give the container more memory",
        )
    if free < 2 * GIB:
        return Finding("memory", value, NOTE, "close other programs before you run eight ranks")
    return Finding("memory", value)


def _container_number(name: str) -> int | None:
    """A number from this process's control group (version 2); None if there is none, or no limit."""
    try:
        with open(f"/sys/fs/cgroup/{name}") as file:
            text = file.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def shared_memory() -> Finding:
    """/dev/shm, which NCCL and data loaders use. Containers often have only 64 MB."""
    if not os.path.isdir("/dev/shm"):
        return Finding("shared memory", "no /dev/shm here; none needed")
    usage = shutil.disk_usage("/dev/shm")
    value = f"{usage.free / GIB:.2f} of {usage.total / GIB:.2f} GiB free"
    if usage.free < 2**26:
        return Finding("shared memory", value, NOTE, "ranks on GPUs need more: docker run --shm-size=1g ...")
    return Finding("shared memory", value)


def temporary_folder() -> Finding:
    """Whether the folder for temporary files is writable and has free space."""
    try:
        folder = tempfile.gettempdir()
        with tempfile.TemporaryFile() as file:
            file.write(b"1")
    except OSError as error:
        return Finding("temporary folder", str(error), PROBLEM, "set TMPDIR to a folder that you can write to")
    free = shutil.disk_usage(folder).free
    value = f"{folder}, {free / GIB:.1f} GiB free"
    return Finding(
        "temporary folder", value, *([] if free > GIB / 2 else [NOTE, "free some disk space, or set TMPDIR"])
    )


def loopback() -> Finding:
    """The loopback interface, which all ranks on one machine communicate over."""
    from shardlab.ranks.transports import loopback_name

    name = loopback_name()
    if not name.startswith("lo"):
        return Finding("loopback", f"none; using {name}", PROBLEM, "bring it up: ip link set lo up")
    return Finding("loopback", name)


def free_port() -> Finding:
    """Whether a port of 127.0.0.1 can be opened and reached."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(2.0)
            with socket.create_connection(server.getsockname(), timeout=2.0):
                server.accept()[0].close()
            return Finding("ports", f"127.0.0.1:{server.getsockname()[1]} opened and reached")
    except OSError as error:
        return Finding(
            "ports", str(error), PROBLEM, "ranks cannot connect: allow connections to 127.0.0.1 in the firewall"
        )


def host_name() -> Finding:
    """Whether this machine's host name resolves. If it does not, gloo without our settings waits 35 s."""
    name, answer = socket.gethostname(), []
    asking = threading.Thread(target=lambda: answer.append(_address_of(name)), daemon=True)
    asking.start()
    asking.join(2.0)
    if answer and answer[0]:
        return Finding("host name", f"{name} is {answer[0]}")
    advice = "the course does not need one; to run torchrun yourself, set GLOO_SOCKET_IFNAME to the loopback name"
    return Finding("host name", f"{name} has no address", NOTE, advice)


def _address_of(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return ""


QUICK: list[Check] = [
    python,
    torch_version,
    cores,
    memory,
    shared_memory,
    temporary_folder,
    loopback,
    free_port,
    host_name,
]
