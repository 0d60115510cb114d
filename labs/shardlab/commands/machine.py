"""What this machine is: checks of `shardlab doctor` that import no torch and take no time.

A check is a function without arguments that returns a `Finding`.
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
    """One thing that was looked at: what it is, what was found, how bad that is, and what to do about it."""

    name: str
    value: str
    state: str = OK
    advice: str = ""


Check = Callable[[], Finding]


def python() -> Finding:
    """The interpreter that runs this."""
    return Finding("Python", f"{platform.python_version()} at {sys.executable}")


def torch_version() -> Finding:
    """torch as it is installed, asked without importing it."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return Finding("torch", "not installed", PROBLEM, "run `make setup`, or pip install -c constraints.txt -e .")
    if tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < (2, 13):
        return Finding("torch", version, PROBLEM, "the course needs torch 2.13 or newer: run `make setup` again")
    return Finding("torch", version)


def cores() -> Finding:
    """Cores that this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count < 2:
        return Finding("cores", str(count), NOTE, "ranks take turns: results and bytes are right, seconds are not")
    return Finding("cores", str(count))


def memory() -> Finding:
    """Memory that is still free, within a container's own limit."""
    import psutil

    machine = psutil.virtual_memory()
    total, free = machine.total, machine.available
    limit, used = (_container_number(name) for name in ("memory.max", "memory.current"))
    if limit is not None and used is not None and limit < total:
        total, free = limit, min(free, limit - used)
    value = f"{free / GIB:.1f} of {total / GIB:.1f} GiB free"
    if free < GIB / 2:
        return Finding(
            "memory", value, PROBLEM, "four ranks need half a GiB: close programs, or give the container more"
        )
    if free < 2 * GIB:
        return Finding("memory", value, NOTE, "close other programs before you run eight ranks")
    return Finding("memory", value)


def _container_number(name: str) -> int | None:
    """A number of this process's control group (version 2); None where there is none, or no limit."""
    try:
        with open(f"/sys/fs/cgroup/{name}") as file:
            text = file.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def shared_memory() -> Finding:
    """/dev/shm: NCCL and data loaders use it; containers often have 64 MB."""
    if not os.path.isdir("/dev/shm"):
        return Finding("shared memory", "no /dev/shm here, none needed")
    usage = shutil.disk_usage("/dev/shm")
    value = f"{usage.free / GIB:.2f} of {usage.total / GIB:.2f} GiB free"
    if usage.free < 2**26:
        return Finding("shared memory", value, NOTE, "ranks on GPUs need more: docker run --shm-size=1g ...")
    return Finding("shared memory", value)


def temporary_folder() -> Finding:
    """The folder for temporary files: can it be written, and is there room?"""
    try:
        folder = tempfile.gettempdir()
        with tempfile.TemporaryFile() as file:
            file.write(b"1")
    except OSError as error:
        return Finding("temporary folder", str(error), PROBLEM, "set TMPDIR to a folder that you can write to")
    free = shutil.disk_usage(folder).free
    value = f"{folder}, {free / GIB:.1f} GiB free"
    return Finding("temporary folder", value, *([] if free > GIB / 2 else [NOTE, "free some disk, or set TMPDIR"]))


def loopback() -> Finding:
    """The loopback interface, over which all ranks of one machine talk."""
    from shardlab.ranks.transports import loopback_name

    name = loopback_name()
    if not name.startswith("lo"):
        return Finding("loopback", f"none, {name} is used", PROBLEM, "bring it up: ip link set lo up")
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
            "ports", str(error), PROBLEM, "ranks cannot meet: allow connections to 127.0.0.1 in the firewall"
        )


def host_name() -> Finding:
    """Whether this machine's own name has an address; where it has none, gloo without our settings waits 35 s."""
    name, answer = socket.gethostname(), []
    asking = threading.Thread(target=lambda: answer.append(_address_of(name)), daemon=True)
    asking.start()
    asking.join(2.0)
    if answer and answer[0]:
        return Finding("host name", f"{name} is {answer[0]}")
    advice = "the course does not need it; for a torchrun of your own set GLOO_SOCKET_IFNAME to the loopback's name"
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
